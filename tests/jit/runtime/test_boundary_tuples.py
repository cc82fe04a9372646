"""What compiled code is given in tuples, as shapes and as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.jit import Config, Dim, Generic, Session, compile_shapes
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary, Range, ShapeOutOfRange
from opinfo.jit.arguments.signature import Param, Signature
from opinfo.jit.config.named_dims import resolved

from .test_boundary import TUPLE, placed


def pair(n: Any) -> Any:
    """The type of a tensor of 16 columns and a tuple of one more."""
    rows = relax.TensorType((n, 16), "float32")
    return relax.TupleType([rows, relax.TupleType([rows])])


def nested() -> Any:
    """``t`` is ``(a, (b,))``; ``main`` gives ``(a + b, (2 (a + b),))``."""
    builder, t = relax.BlockBuilder(), relax.Var("t", pair(tirx.Var("n", "int64")))
    with builder.function("main", [t]):
        with builder.dataflow():
            inner = builder.emit(relax.TupleGetItem(t, 1))
            a, b = (builder.emit(relax.TupleGetItem(of, 0)) for of in (t, inner))
            both = builder.emit(relax.op.add(a, b))
            twice = builder.emit(relax.op.add(both, both))
            out = builder.emit_output(relax.Tuple([both, relax.Tuple([twice])]))
        builder.emit_func_output(out)
    return builder.get()


def test_the_signature_of_tuples() -> None:
    assert Signature.of(nested()["main"]) == TUPLE
    assert str(TUPLE) == "main(t: (float32[n, 16], (float32[n, 16])))"
    assert TUPLE.symbols() == {"n": ("t[0]", 0)}


def test_what_fits_in_a_tuple_is_passed_on() -> None:
    a, b = (tvm.runtime.tensor(placed((3, 16))) for _ in range(2))
    for given in ((a, (b,)), [a, [b]], tvm_ffi.convert([a, [b]])):
        ((x, (y,)),), values = Boundary(TUPLE)([given])
        assert (x.data_ptr(), y.data_ptr()) == (a.data_ptr(), b.data_ptr()) and values == {"n": 3}


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("array", [
    placed((3, 16), off=4), placed((16, 3)).T, read_only(placed((3, 16))),
    tvm.runtime.from_dlpack(placed((4, 16)))._create_view((3, 16), relative_byte_offset=4),
])  # fmt: skip
def test_what_is_not_aligned_in_a_tuple_is_copied(array: Any) -> None:
    good = placed((3, 16))
    want = array if isinstance(array, np.ndarray) else np.from_dlpack(array)
    for given in ((array, (good,)), (good, (array,))):
        ((x, (y,)),), values = Boundary(TUPLE)([given])
        got = x if given[0] is array else y
        assert x.data_ptr() % 64 == y.data_ptr() % 64 == 0 and values == {"n": 3}
        assert got.is_contiguous()
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize(("given", "why"), [
    ((placed((3, 16)), (placed((3, 16), "float64"),)), r"t[1][0] is float64; it must be float32"),
    ((placed((3, 16)), (placed((4, 16)),)),
     "t[1][0] has extent 4 in dimension 0; it must have 3, the value of n elsewhere"),
    ((placed((3, 15)), (placed((3, 16)),)), "t[0] has extent 15 in dimension 1; it must have 16"),
    ((placed((3, 16)), (placed((16,)),)), "t[1][0] has 1 dimensions, [16]; it must have 2"),
    ((placed((3, 16)), (None,)), "t[1][0] is NoneType; it must be a tensor"),
    ((placed((3, 16)), None), "t[1] is NoneType; it must be a tuple: t[1]: (float32[n, 16])"),
    (None, "t is NoneType; it must be a tuple"),
    (placed((3, 16)), "t is ndarray; it must be a tuple"),
    ((placed((3, 16)),), "t has 1 fields; it must have 2"),
    ((placed((3, 16)), ()), "t[1] has 0 fields; it must have 1"),
    ((placed((3, 16)), placed((1, 3, 16))), "t[1] is ndarray; it must be a tuple"),
])  # fmt: skip
def test_what_does_not_fit_in_a_tuple_is_refused_with_its_place(given: Any, why: str) -> None:
    with pytest.raises(BoundaryError) as error:
        Boundary(TUPLE)([given])
    assert f"main: argument {why}" in str(error.value)


def test_tuples_share_symbols_and_ranges_with_the_other_arguments() -> None:
    """Also where an expression in a tuple comes before its symbol."""
    fields = Param("t[0]", "float32", (("+", "n", 1),)), Param("t[1]", None, ("n",), kind="shape")
    signature = Signature("f", (Param("t", None, None, kind="tuple", fields=fields),
                                Param("x", "float32", ("n",))))  # fmt: skip
    check = Boundary(signature, {"n": Range(1, 4)}, strict=True)
    assert check([(placed((4,)), [3]), placed((3,))])[1] == {"n": 3}
    with pytest.raises(BoundaryError, match=r"argument t\[0\] has extent 3 .* must have 4, the"):
        check([(placed((3,)), [3]), placed((3,))])
    with pytest.raises(
        BoundaryError, match=r"argument x has extent 4 .* must have 3, the value of n elsewhere"
    ):
        check([(placed((4,)), [3]), placed((4,))])
    with pytest.raises(ShapeOutOfRange, match=r"dimension 0 of argument t\[1\] \(n\) is 5"):
        check([(placed((6,)), [5]), placed((5,))])


def test_a_shape_is_what_it_must_be() -> None:
    check = Boundary(Signature("f", (Param("s", None, ("n", 3), kind="shape"),)),
                     {"n": Range(0, 8)}, strict=True)  # fmt: skip
    for given in (tvm_ffi.Shape((8, 3)), (8, 3), [np.int64(8), 3], torch.Size((8, 3))):
        (got,), values = check([given])
        assert isinstance(got, tvm_ffi.Shape) and tuple(got) == (8, 3) and values == {"n": 8}
    with pytest.raises(ShapeOutOfRange, match=r"dimension 0 of argument s \(n\) is 9"):
        check([(9, 3)])
    free = Boundary(Signature("f", (Param("s", None, None, kind="shape"),)))
    assert tuple(free([(1, 2, 3)])[0][0]) == (1, 2, 3)
    for wrong, why in [((-1, 3), "has extent -1 in dimension 0; it must have 0 or more: s: shape"),
                       ((1, 4), "has extent 4 in dimension 1; it must have 3"),
                       ((1,), "has 1 dimensions"), ((1.5, 3), "is not a shape"),
                       ((1 << 70, 3), "is not a shape"), (None, "is NoneType; it must be a shape"),
                       (3, "is int; it must be a shape: s: shape[n, 3]")]:  # fmt: skip
        with pytest.raises(BoundaryError) as error:
            check([wrong])
        assert f"f: argument s {why}" in str(error.value)


def test_none_is_for_what_may_be_anything() -> None:
    function = relax.FuncType([relax.TensorType(ndim=1)], relax.TensorType(ndim=1))
    given = {"o": relax.AnyType(), "k": tvm.ir.PrimType("int64"), "f": function}
    params = [relax.Var(name, ty) for name, ty in given.items()]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(params[0])
    signature = Signature.of(builder.get()["main"])
    assert str(signature) == "main(o: anything, k: int64 number, f: function)"
    assert Boundary(signature)([None, 3, min])[0] == [None, 3, min]
    for args, kind in (([3, None, min], "k is NoneType; it must be k: int64 number"),
                       ([3, 3, None], "f is None; it must be a function")):  # fmt: skip
        with pytest.raises(BoundaryError, match=f"argument {kind}"):
            Boundary(signature)(args)


@pytest.mark.parametrize(
    ("dtype", "kind", "good", "bad"),
    [("int64", int, [3, -1, True, np.int8(3), np.array(3), 2**63 - 1],
      [(3.0, "float"), ("3", "str"), (None, "NoneType"), (np.float32(3), "float32"),
       ([3], "list"), (2**63, "9223372036854775808")]),
     ("int32", int, [2**31 - 1, -(2**31)], [(2**31, "2147483648"), (-(2**31) - 1, "-2147483649")]),
     ("uint8", int, [0, 255], [(-1, "-1"), (256, "256")]),
     ("uint64", int, [2**63 - 1], [(-1, "-1"), (2**63, "9223372036854775808")]),
     ("bool", bool, [True, False, 1, np.bool_(1)], [(2, "2"), (1.0, "float")]),
     ("float32", float, [3, 3.5, True, np.float16(3), np.array(3.5)],
      [("3", "str"), (b"3", "bytes"), (None, "NoneType"), ([3.0], "list"), (1j, "complex")])],
)  # fmt: skip
def test_a_number_is_what_it_must_be(
    dtype: str, kind: type, good: list[Any], bad: list[Any]
) -> None:
    """TVM passes 2**40 as int32, and what it does not take it calls an object of no parameter."""
    check = Boundary(Signature("f", (Param("k", dtype, None, kind="number"),)))
    for given in good:
        (got,), _ = check([given])
        assert got == given and type(got) is kind
    for given, expected in bad:
        with pytest.raises(BoundaryError) as error:
            check([given])
        assert str(error.value) == f"f: argument k is {expected}; it must be k: {dtype} number"


def test_tensors_in_what_may_be_anything_can_be_read() -> None:
    """The model finds out later what it is."""
    o = relax.Var("o", relax.AnyType())
    rows = relax.TensorType((tirx.Var("n", "int64"), 16), "float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [o]):
        found = builder.match_cast(builder.emit(relax.TupleGetItem(
            builder.match_cast(o, relax.TupleType([rows])), 0)), rows)  # fmt: skip
        builder.emit_func_output(builder.emit(relax.op.add(found, found)))
    done = compile_shapes(builder.get(), Generic())
    x = placed((5, 16), off=4)
    with Session(done) as session:
        for given in ((x,), [tvm_ffi.from_dlpack(x)], (placed((16, 5)).T,), (placed((5, 16)),)):
            np.testing.assert_array_equal(session(given).numpy(), 2 * np.from_dlpack(given[0]))
    check = Boundary(Signature("f", (Param("o", None, None, kind="object"),)))
    whole = tvm.runtime.tensor(placed((5, 16)))
    (((a, (b, s)),), _) = check([(whole, [x, "text"])])
    assert a is whole and s == "text" and b.data_ptr() % 64 == 0 != x.ctypes.data % 64
    shape = tvm_ffi.Shape((2, 3))
    assert check([shape])[0][0] is shape
    with pytest.raises(BoundaryError, match=r"argument o is at .* aligned to 64"):
        Boundary(check.signature, strict=True)([(x,)])


def test_dimensions_in_tuples_have_names_and_places() -> None:
    for name in ("n", "t[0]:0", "t[1][0]:0"):
        assert resolved(Config(dims={name: Dim(1, 8)}), nested()).dims == {"n": Dim(1, 8)}
    with pytest.raises(
        ValueError, match=r"unknown dimension m; the dimensions of the model: n \(t\[1\]\[0\]:0\)"
    ):
        resolved(Config(dims={"m": Dim(1, 8)}), nested())


def test_a_model_of_tuples_runs_on_what_is_not_aligned() -> None:
    a, b = placed((5, 16), off=4), placed((16, 5)).T
    done = compile_shapes(nested(), Config(Generic(), dims={"t[1][0]:0": Dim(1, 8)}))
    with Session(done) as session:
        for given in ((a, (b,)), [placed((5, 16)), [b]]):
            both, (twice,) = session(given)
            np.testing.assert_array_equal(both.numpy(), a + b)
            np.testing.assert_array_equal(twice.numpy(), 2 * (a + b))
        with pytest.raises(BoundaryError, match=r"argument t\[1\] is NoneType"):
            session((a, None))
    with Session(done, strict=True) as session:
        with pytest.raises(ShapeOutOfRange, match=r"argument t\[0\] \(n\) is 9; expected 1 to 8"):
            session((placed((9, 16)), (placed((9, 16)),)))


def test_ranges_of_a_shape_that_is_passed_hold_where_strict() -> None:
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((1, 4), "float32"))
    s, k = relax.Var("s", relax.ShapeType([n])), relax.Var("k", tvm.ir.PrimType("int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, s, k]):
        wide = builder.emit(relax.op.broadcast_to(x, relax.ShapeExpr([n, 4])))
        builder.emit_func_output(builder.emit(relax.op.add(wide, wide)))
    done = compile_shapes(builder.get(), Config(Generic(), dims={"s:0": Dim(1, 8)}))
    row = tvm.runtime.tensor(placed((1, 4)))
    with Session(done, strict=True) as session:
        want = 2 * np.broadcast_to(row.numpy(), (3, 4))
        for shape in (tvm_ffi.Shape((3,)), [3]):
            np.testing.assert_array_equal(session(row, shape, 1).numpy(), want)
        for n_given in (0, 9, 100):
            with pytest.raises(ShapeOutOfRange, match=r"argument s \(n\)"):
                session(row, tvm_ffi.Shape((n_given,)), 1)
    with Session(done) as session:
        for args in ((tvm_ffi.Shape((-1,)), 1), (None, 1), (tvm_ffi.Shape((3,)), None)):
            with pytest.raises(BoundaryError, match=r"argument [sk] "):
                session(row, *args)
