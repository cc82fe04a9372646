"""Arguments that go straight to the model are those that the boundary passes on untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.jit import Generic, Session, compile_shapes
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary, Range
from opinfo.jit.arguments.fast_path import plan
from opinfo.jit.arguments.signature import Param, Signature
from opinfo.jit.runtime.library import Sites
from tests.jit import modules
from tests.jit.runtime.test_boundary import REFUSED, SIGNATURE, TUPLE, W, X, placed


@pytest.fixture(scope="module")
def straight() -> Any:
    done = compile_shapes(modules.dense(), Generic())
    found = Sites(tvm.runtime.load_module(str(done.library))).straight
    yield found
    del done


def called(straight: Any, boundary: Boundary, args: Any) -> bool:
    """Whether the function is called, with what it is given."""
    seen: list[Any] = []

    @tvm_ffi.convert
    def function(*given: Any) -> int:
        seen.append(len(given))
        return 7

    out = straight(function, plan(boundary), *args)
    assert out == 7 if seen else isinstance(out, tvm_ffi.Function)
    assert seen in ([], [len(args)])
    return bool(seen)


def one(dtype: str | None, shape: Any, kind: Any = "tensor", **how: Any) -> Boundary:
    return Boundary(Signature("f", (Param("x", dtype, shape, kind=kind),)), **how)


def of(kind: Any, shape: Any = None, **how: Any) -> Boundary:
    return Boundary(Signature("f", (Param("s", None, shape, kind=kind),)), **how)


def test_what_fits_is_given_to_the_function(straight: Any) -> None:
    x, w = placed(X), placed(W)
    assert called(straight, Boundary(SIGNATURE), (x, w))
    assert called(straight, Boundary(SIGNATURE), (tvm.runtime.tensor(x), tvm.runtime.tensor(w)))
    assert called(straight, one("bfloat16", ("n",)), (tvm.runtime.empty((3,), "bfloat16"),))
    assert called(straight, one(None, None), (placed(X),))
    for given in ("anything", None):
        assert called(straight, of("object"), (given,))
    for plain in (3, 3.5):
        assert called(straight, of("number"), (plain,))
    for dtype, most in (("int8", 127), ("uint64", 2**63 - 1), ("bool", True), ("float32", 3.5)):
        assert called(straight, one(dtype, None, kind="number"), (most,))
    for rank in (("n", 3), None):
        assert called(straight, of("shape", rank), (tvm_ffi.Shape((2, 3)),))
    assert called(straight, one(None, (None, 64)), (placed(X, "int8"),))


@pytest.mark.parametrize("args", [
    (placed(X, off=4), placed(W)), (placed(X), placed((32, 64)).T), (placed((0, 64)), placed(W)),
    (placed(X)[:, ::2], placed(W)), (placed(X), placed(W), placed(W)),
])  # fmt: skip
def test_what_is_copied_or_refused_is_not(straight: Any, args: Any) -> None:
    assert not called(straight, Boundary(SIGNATURE), args)


@pytest.mark.parametrize(
    ("dtype", "given"),
    [("int8", 128), ("int8", -129), ("uint8", -1), ("bool", 2), ("int64", 3.0), ("int64", "3"),
     ("float32", "3"), ("float32", None), ("float32", True), ("float32", 3), ("int64", True),
     ("bool", 1)],
)  # fmt: skip
def test_numbers_of_another_type_or_range_are_not(straight: Any, dtype: str, given: Any) -> None:
    assert not called(straight, one(dtype, None, kind="number"), (given,))


@pytest.mark.parametrize("given", [placed(X, off=4), placed(X).T, (placed(X),)])
def test_what_may_have_to_be_copied_in_anything_is_not(straight: Any, given: Any) -> None:
    assert not called(straight, of("object"), (given,))


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_the_boundary_refuses_never_is(straight: Any, number: int) -> None:
    args, _ = REFUSED[number]
    try:
        assert not called(straight, Boundary(SIGNATURE), args)
    except (BufferError, RuntimeError, TypeError):  # it cannot be passed to C++
        with pytest.raises(BoundaryError):
            Boundary(SIGNATURE)(args)


def test_symbols_are_the_same_in_all_arguments(straight: Any) -> None:
    two = Boundary(Signature("f", (Param("x", "float32", ("n", "m")),
                                   Param("y", "float32", ("m", "n")))))  # fmt: skip
    assert called(straight, two, (placed((2, 3)), placed((3, 2))))
    assert not called(straight, two, (placed((2, 3)), placed((3, 4))))
    assert not called(straight, two, (placed((2, 3)), placed((2, 2))))


@pytest.mark.parametrize("allowed, good, bad", [
    (Range(2, 8, 2), [2, 8], [1, 3, 10]), (Range(3), [3, 900], [1, 2]), (Range(), [1, 5], []),
])  # fmt: skip
def test_ranges_hold_where_strict(straight: Any, allowed: Range, good: list[int],
                                  bad: list[int]) -> None:  # fmt: skip
    for strict in (True, False):
        check = one("float32", ("n",), ranges={"n": allowed}, strict=strict)
        for n in good:
            assert called(straight, check, (placed((n,)),))
        for n in bad:
            assert called(straight, check, (placed((n,)),)) is not strict


def test_another_device_or_dtype_is_not(straight: Any) -> None:
    elsewhere = Boundary(Signature("f", (Param("x", "float32", ("n",), "cuda"),)))
    assert not called(straight, elsewhere, (placed((4,)),))
    for dtype in ("int32", "uint32", "float16", "float64"):
        assert not called(straight, one("float32", ("n",)), (placed((4,), dtype),))


@pytest.mark.parametrize("given", [None, 3, (2, 3), tvm_ffi.Shape((2,)), tvm_ffi.Shape((2, 4)),
                                   tvm_ffi.Shape((-2, 3)), tvm_ffi.Shape((9, 3))])  # fmt: skip
def test_shapes_that_do_not_fit_are_not(straight: Any, given: Any) -> None:
    check = of("shape", ("n", 3), ranges={"n": Range(1, 8)}, strict=True)
    assert not called(straight, check, (given,))


@pytest.mark.parametrize("check", [of("number"), of("function"), one(None, None)])
def test_none_is_not_what_is_wanted(straight: Any, check: Boundary) -> None:
    assert not called(straight, check, (None,))


def test_tuples_are_left_to_the_boundary() -> None:
    assert plan(Boundary(TUPLE)) is None


def test_expressions_are_left_to_the_boundary() -> None:
    assert plan(one("float32", ("n", ("+", "n", 1)))) is None
    assert plan(one("float32", tuple(f"n{k}" for k in range(33)))) is None


def test_an_error_of_the_model_is_its_own() -> None:
    with Session(compile_shapes(modules.dense(), Generic())) as session:
        x = modules.rows(3)
        given = placed(x.shape)
        given[...] = x
        want = modules.expected(x)
        np.testing.assert_allclose(session(given).numpy(), want, rtol=1e-4, atol=1e-5)

        @tvm_ffi.convert
        def broken(*args: Any) -> None:
            raise RuntimeError("of the model")

        session["main"]._free = [broken]
        with pytest.raises(RuntimeError, match="of the model"):
            session(given)


def test_an_error_of_the_model_is_raised_and_it_runs_once() -> None:
    calls: list[int] = []

    def checked(x: Any) -> None:
        calls.append(x.shape[0])
        if x.shape[0] == 3:
            raise ValueError("three rows")

    tvm.register_global_func("tests.jit.checked", checked, override=True)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 4), "float32"))
    with bb.function("main", [x], pure=False):
        bb.emit(relax.Call(relax.ExternFunc("tests.jit.checked"), [x], None, [relax.AnyType()]))
        bb.emit_func_output(bb.emit(relax.op.nn.relu(x)))
    with Session(compile_shapes(bb.get(), Generic())) as session:
        session(tvm.runtime.tensor(placed((2, 4))))
        with pytest.raises(ValueError, match="three rows"):
            session(tvm.runtime.tensor(placed((3, 4))))
        session(tvm.runtime.tensor(placed((2, 4))))
    assert calls == [2, 3, 2]


@pytest.mark.parametrize("result", [None, tvm_ffi.convert(lambda: 7)])
def test_a_model_that_gives_nothing_or_a_function_runs_once(result: Any) -> None:
    calls: list[int] = []

    def made(x: Any) -> Any:
        calls.append(x.shape[0])
        return result

    tvm.register_global_func("tests.jit.made", made, override=True)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 4), "float32"))
    with bb.function("main", [x], pure=False):
        given = relax.Call(relax.ExternFunc("tests.jit.made"), [x], None, [relax.AnyType()])
        bb.emit_func_output(bb.emit(given))
    with Session(compile_shapes(bb.get(), Generic())) as session:
        got = session(tvm.runtime.tensor(placed((2, 4))))
    assert got is None if result is None else got() == 7
    assert calls == [2]
