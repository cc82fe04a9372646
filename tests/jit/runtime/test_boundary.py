"""What compiled code is given: refused with its name, copied where it must be, else untouched."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary, Range, ShapeOutOfRange
from opinfo.jit.arguments.extent import spelled, value
from opinfo.jit.arguments.signature import Param, Signature

from ..kernels import model

X, W = (5, 64), (64, 32)
SIGNATURE = Signature("main", (Param("x", "float32", ("n", 64)), Param("w", "float32", W)))


def placed(shape: tuple[int, ...], dtype: Any = "float32", off: int = 0) -> Any:
    """An array that lies so many bytes after an address that is aligned."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + off
    out = raw[start : start + size].view(dtype).reshape(shape)
    out[...] = np.arange(out.size).reshape(shape) % 7
    return out


def boundary(**how: Any) -> Boundary:
    return Boundary(SIGNATURE, **how)


def test_the_signature_of_a_relax_function() -> None:
    assert Signature.of(model()["main"]) == SIGNATURE
    assert str(SIGNATURE) == "main(x: float32[n, 64], w: float32[64, 32])"
    with pytest.raises(TypeError, match="expected a Relax function, got IRModule"):
        Signature.of(model())


def test_what_fits_is_passed_on_without_a_copy() -> None:
    x, w = placed(X), placed(W)
    (a, b), values = boundary()([x, w])
    assert values == {"n": 5}
    assert (a.data_ptr(), b.data_ptr()) == (x.ctypes.data, w.ctypes.data)
    tensors = [tvm.runtime.tensor(x), tvm.runtime.tensor(w)]
    check = boundary(strict=True, ranges={"n": Range(1, 9)})
    for _ in range(2):
        out, values = check(tensors)
        assert out[0] is tensors[0] and out[1] is tensors[1] and values == {"n": 5}


@pytest.mark.parametrize("off", [4, 16, 32, 60])
def test_what_is_not_aligned_is_copied(off: int) -> None:
    x = placed(X, off=off)
    (a, _), _ = boundary()([x, placed(W)])
    assert a.data_ptr() % 64 == 0 and a.data_ptr() != x.ctypes.data
    np.testing.assert_array_equal(a.numpy(), x)
    with pytest.raises(BoundaryError, match=r"x is at 0x.* 64 bytes; pass tvm.runtime.tensor"):
        boundary(strict=True)([x, placed(W)])


def test_a_torch_tensor_is_taken_and_copied_where_it_must_be() -> None:
    whole = torch.arange(7 * 64, dtype=torch.float32).reshape(7, 64)
    for x in (whole[:5], whole.flatten()[1 : 1 + 5 * 64].reshape(5, 64), whole.T[:, :5].T):
        (a, _), values = boundary()([x, placed(W)])
        assert values == {"n": 5} and a.data_ptr() % 64 == 0 and a.is_contiguous()
        np.testing.assert_array_equal(a.numpy(), x.numpy())


def test_a_tensor_of_tvm_that_is_not_aligned_is_copied() -> None:
    x = tvm.runtime.from_dlpack(placed((6, 64)))._create_view(X, relative_byte_offset=4)
    (a, _), _ = boundary()([x, placed(W)])
    assert a.data_ptr() % 64 == 0
    np.testing.assert_array_equal(a.numpy(), np.from_dlpack(x))


def test_strides_are_copied_away_or_refused() -> None:
    x = placed((64, 5)).T
    (a, _), _ = boundary()([x, placed(W)])
    np.testing.assert_array_equal(a.numpy(), x)
    with pytest.raises(BoundaryError, match="argument x is not contiguous; it must be"):
        boundary(strict=True)([x, placed(W)])


def test_read_only_arrays_are_copied() -> None:
    x = placed(X)
    x.flags.writeable = False
    (a, _), values = boundary()([x, placed(W)])
    np.testing.assert_array_equal(a.numpy(), x)
    assert values == {"n": 5}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float64", "bfloat16"])
def test_every_dtype_arrives(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    check = Boundary(Signature("f", (Param("x", dtype, ("n",)),)))
    for off in (0, 8):
        x = placed((9,), "uint8" if dtype == "bool" else kind, off)
        x = x.astype(bool) if dtype == "bool" else x
        (a,), _ = check([x])
        assert str(a.dtype) == dtype
        np.testing.assert_array_equal(a.numpy(), x)
        (b,), _ = check([a])
        assert b is a
    with pytest.raises(BoundaryError, match=f"argument x is float32; it must be {dtype}"):
        check([placed((9,))])


def test_a_scalar_and_nothing_at_all() -> None:
    check = Boundary(Signature("f", (Param("x", "float32", ()), Param("y", "float32", ("n", 3)))))
    (a, b), values = check([placed((), off=4), np.zeros((0, 3), "float32")])
    assert values == {"n": 0} and a.shape == () and b.shape == (0, 3)


class Broken:
    """A producer that does not produce."""

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("not today")


REFUSED = [
    ([placed(X)], "main takes 2 arguments, got 1: main(x: float32[n, 64]"),
    ([placed(X, "float64"), placed(W)], "argument x is float64; it must be float32"),
    ([placed(X, ">f4"), placed(W)], "argument x is >f4; it must be float32"),
    ([placed((5,)), placed(W)], "argument x has 1 dimensions, [5]; it must have 2: x: float32[n,"),
    ([placed((5, 63)), placed(W)], "argument x has extent 63 in dimension 1; it must have 64"),
    ([placed(X), placed((32, 64))], "argument w has extent 32 in dimension 0; it must have 64"),
    ([[1.0], placed(W)], "argument x is list; it must be a tensor"),
    ([None, placed(W)], "argument x is NoneType; it must be a tensor"),
    ([Broken(), placed(W)], "argument x cannot be imported as a tensor: not today; it must be x:"),
    ([torch.zeros(X, dtype=torch.int32), placed(W)], "argument x is int32; it must be float32"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused_with_its_name(number: int) -> None:
    args, why = REFUSED[number]
    with pytest.raises(BoundaryError) as error:
        boundary()(args)
    assert why in str(error.value)


def test_an_argument_on_another_device_is_refused() -> None:
    check = Boundary(Signature("f", (Param("x", "float32", ("n",), "cuda"),)))
    with pytest.raises(BoundaryError, match="argument x is on cpu:0; it must be on cuda"):
        check([placed((4,))])


def test_symbols_are_the_same_in_all_arguments() -> None:
    two = Signature("f", (Param("x", "float32", ("n", "m")), Param("y", "float32", ("m", "n"))))
    assert Boundary(two)([placed((2, 3)), placed((3, 2))])[1] == {"n": 2, "m": 3}
    with pytest.raises(
        BoundaryError,
        match="argument y has extent 4 in dimension 1; it must have 2, the value of n elsewhere",
    ):
        Boundary(two)([placed((2, 3)), placed((3, 4))])


def test_expressions_are_checked_when_all_symbols_are_known() -> None:
    """Also where the expression comes before the symbol; one of no symbol that is known is not."""
    n, k = tirx.Var("n", "int64"), tirx.Var("k", "int64")
    params = [relax.Var(name, relax.TensorType(shape)) for name, shape in
              (("x", (n * 2 + 1,)), ("y", (n,)), ("z", (k + 1,)))]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("f", params):
        builder.emit_func_output(params[0])
    signature = Signature.of(builder.get()["f"])
    assert signature.params[0].shape == (("+", ("*", "n", 2), 1),)
    check = Boundary(signature)
    assert check([placed((7,)), placed((3,)), placed((9,))])[1] == {"n": 3}
    with pytest.raises(
        BoundaryError, match=r"argument x has extent 6 .* must have 7, the value of \(\(n \* 2"
    ):
        check([placed((6,)), placed((3,)), placed((9,))])
    with pytest.raises(ValueError, match=r"f has no symbolic extent k; .* parameters: n"):
        Boundary(signature, {"k": Range(1, 4)})


def test_arguments_that_are_not_tensors_are_passed_on() -> None:
    params = [relax.Var("s", relax.ShapeType(ndim=2)), relax.Var("x", relax.TensorType(ndim=2))]
    builder = relax.BlockBuilder()
    with builder.function("f", params):
        builder.emit_func_output(params[1])
    signature = Signature.of(builder.get()["f"])
    assert signature.params == (Param("s", None, (None, None), kind="shape"),
                                Param("x", "float32", (None, None)))  # fmt: skip
    shape = tvm.runtime.ShapeTuple([1, 2])
    assert Boundary(signature)([shape, placed((2, 9))])[0][0] is shape
    with pytest.raises(BoundaryError, match="argument x has 1 dimensions"):
        Boundary(signature)([shape, placed((2,))])


def test_a_weight_is_looked_at_again_when_it_is_another_one() -> None:
    check, w = boundary(), tvm.runtime.tensor(placed(W))
    assert check([placed(X), w])[0][1] is w and check([placed(X), w])[0][1] is w
    with pytest.raises(BoundaryError, match="argument w"):
        check([placed(X), tvm.runtime.tensor(placed((32, 64)))])
    assert check([placed(X), w])[0][1] is w


@pytest.mark.parametrize(
    ("allowed", "good", "bad"),
    [(Range(2, 8), [2, 8], [0, 1, 9]), (Range(1, 32, 8), [8, 32], [1, 4, 12, 40]),
     (Range(3), [3, 1000], [2]), (Range(0, None, 5), [0, 5], [1])],
)  # fmt: skip
def test_ranges_are_enforced_where_strict(allowed: Range, good: list[int], bad: list[int]) -> None:
    check = boundary(ranges={"n": allowed}, strict=True)
    for n in good:
        assert check([placed((n, 64)), placed(W)])[1] == {"n": n} and n in allowed
    for n in bad:
        with pytest.raises(ShapeOutOfRange) as error:
            check([placed((n, 64)), placed(W)])
        assert str(error.value) == (
            f"main: dimension 0 of argument x (n) is {n}; expected {allowed}"
        )
        assert boundary(ranges={"n": allowed})([placed((n, 64)), placed(W)])[1] == {"n": n}


def test_ranges_tell_themselves_and_refuse_nonsense() -> None:
    assert [str(r) for r in (Range(1, 9), Range(8, 64, 8), Range(3))] == [
        "1 to 9", "8 to 64, a multiple of 8", "3 or more"]  # fmt: skip
    for wrong in ({"low": 9, "high": 8}, {"low": -1}, {"multiple_of": 0},
                  {"low": 9, "high": 15, "multiple_of": 8}):  # fmt: skip
        with pytest.raises(ValueError, match="Range"):
            Range(**wrong)


ROWS = ("n", 16)
TUPLE = Signature("main", (
    Param("t", None, None, kind="tuple", fields=(
        Param("t[0]", "float32", ROWS),
        Param("t[1]", None, None, kind="tuple", fields=(Param("t[1][0]", "float32", ROWS),)))),
))  # fmt: skip


TOLD = {"name": "x", "dtype": "int8", "device": "cpu", "shape": [], "kind": "tensor", "fields": []}


def test_a_signature_travels_as_json() -> None:
    shape = ("n", 4, None, ("max", ("+", "n", 1), 8))
    params = (
        Param("x", "int8", shape, "cuda"),
        Param("o", None, None, kind="object"),
        Param("s", None, ("m",), kind="shape"),
    )
    signature = Signature("f", (*params, *TUPLE.params))
    assert Signature.from_json(json.loads(json.dumps(signature.to_json()))) == signature
    assert spelled(shape[3]) == "max((n + 1), 8)" and value(shape[3], {"n": 9}) == 10
    assert value(("//", "n", 0), {"n": 3}) is None and value(("%", "m", 2), {"n": 3}) is None


@pytest.mark.parametrize(
    "broken",
    [None, [], {}, {"format": 1, "function": "f", "params": []},
     {"format": 2, "function": 3, "params": []},
     {"format": 2, "function": "f", "params": [{"name": "x"}]},
     {"format": 2, "function": "f", "params": [{**TOLD, "shape": [["^", "n", 2]]}]},
     {"format": 2, "function": "f", "params": [{**TOLD, "kind": "ragged"}]},
     {"format": 2, "function": "f", "params": [{**TOLD, "fields": [{"name": "y"}]}]},
     {"format": 2, "function": "f", "params": [{**TOLD, "shape": [1.5]}]}],
)  # fmt: skip
def test_an_invalid_signature_is_refused(broken: Any) -> None:
    with pytest.raises(ValueError, match="not a signature"):
        Signature.from_json(broken)


def test_a_compiled_model_runs_on_what_is_not_aligned() -> None:
    mod = model()
    run = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())["main"]
    x, w = placed(X, off=4), placed(W, off=12)
    args, _ = Boundary(Signature.of(mod["main"]))([x, w])
    np.testing.assert_allclose(run(*args).numpy(), np.maximum(x @ w, 0), rtol=1e-5)


def test_a_declared_upper_bound_is_checked() -> None:
    """TVM plans memory for the bound, and fails beyond it with the sizes of its buffers."""

    @I.ir_module
    class Bounded:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32"), y: R.Tensor(("m", 64), "float32")) -> R.Tensor(
            ndim=2, dtype="float32"
        ):
            R.func_attr({"tir_var_upper_bound": {"n": 4}})
            with R.dataflow():
                a = R.nn.relu(R.tanh(x))
                z = R.concat((a, y), axis=0)
                R.output(z)
            return z

    assert Signature.of(Bounded["main"]).conditions == (("<=", "n", 4),)
    run = opinfo.compile(Bounded, []).run
    x, y = np.ones((5, 64), "float32"), np.ones((9, 64), "float32")
    np.testing.assert_allclose(run(x[:4], y), np.concatenate([np.tanh(x[:4]), y]), rtol=1e-6)
    with pytest.raises(BoundaryError, match="got n = 5; the model is only defined for n <= 4:"):
        run(x, y)
