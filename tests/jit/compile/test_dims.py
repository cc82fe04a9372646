"""Symbolic dimensions: where they are read, and functions with them bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.byoc.dims.symbolic_dims import Unbound, bind, symbols

from ...common.prim_funcs import lowered


@T.prim_func(s_tir=True)
def mixed(a: T.handle, b: T.handle, c: T.handle) -> None:
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n * 2 + 1, m))
    C = T.match_buffer(c, (T.min(n, T.int64(4)), m))
    for i, j in T.grid(T.min(n, T.int64(4)), m):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[2 * vi + 1, vj] * T.Cast("float32", n)


@T.prim_func(s_tir=True)
def hidden(a: T.handle, b: T.handle) -> None:
    n = T.int64()
    A = T.match_buffer(a, (n * 2,))
    B = T.match_buffer(b, (n * 2,))
    for i in range(n * 2):
        with T.sblock("B"):
            vi = T.axis.spatial(n * 2, i)
            B[vi] = A[vi]


def sliced() -> Any:
    """`x[1:n]` of (2 * n, 8): lowered, it is passed n as a number."""
    n = tirx.Var("n", "int64")
    return lowered(lambda x: relax.op.strided_slice(x, [0], [1], [n]), (n * 2, 8))


def run(func: Any, *args: Any) -> Any:
    built = tvm.tirx.build(tvm.IRModule({"f": func.with_attr("global_symbol", "f")}), "llvm")["f"]
    given = [tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    built(*given)
    return given[-1].numpy()


def test_symbols_stand_where_they_are_first_alone() -> None:
    assert [(s.name, s.param, s.axis) for s in symbols(mixed)] == [("n", 0, 0), ("m", 0, 1)]


def test_a_number_among_the_parameters_is_a_symbol() -> None:
    assert [(s.name, s.param, s.axis) for s in symbols(sliced())] == [("n", 1, None)]


def test_a_dimension_that_stands_nowhere_alone_is_refused() -> None:
    with pytest.raises(Unbound, match="n of hidden never stands alone in a shape"):
        symbols(hidden)


def test_two_variables_of_one_name_stay_distinct() -> None:
    n, other = tirx.Var("n", "int64"), tirx.Var("n", "int64")
    a, b = tirx.decl_buffer((n,), name="a"), tirx.decl_buffer((other,), name="b")
    func = tirx.PrimFunc([a, b], tirx.Evaluate(0))
    assert [s.name for s in symbols(func)] == ["n", "n_1"]


def test_bound_shapes_are_numbers_and_the_function_is_as_it_was() -> None:
    before = tvm.ir.save_json(mixed)
    bound = bind(mixed, {"n": 7, "m": 3})
    assert [[int(e) for e in p.ty.shape] for p in bound.params] == [[7, 3], [15, 3], [4, 3]]
    assert tvm.ir.save_json(mixed) == before


@pytest.mark.parametrize("n", [1, 3, 4, 9])
def test_bound_functions_compute_the_same(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.random((r, 5)).astype("float32") for r in (n, 2 * n + 1))
    out = np.zeros((min(n, 4), 5), "float32")
    bound = run(bind(mixed, {"n": n, "m": 5}), a, b, out)
    rows = min(n, 4)
    np.testing.assert_allclose(bound, a[:rows] + b[1 : 2 * rows : 2] * np.float32(n), rtol=1e-6)


@pytest.mark.parametrize(("n", "rows"), [(1, 0), (4, 3)])
def test_extents_that_a_size_decides_are_numbers(n: int, rows: int) -> None:
    """A slice that ends at a computed size has a choice in its extents."""
    size = tirx.Var("n", "int64")
    zero = tirx.IntImm("int64", 0)
    end = tirx.Select(size < 2, zero, size - 1)
    a, b = (tirx.decl_buffer((e, 8), name=k) for e, k in ((size, "a"), (tirx.max(zero, end), "b")))
    bound = bind(tirx.PrimFunc([a, b], tirx.Evaluate(0)), {"n": n})
    assert [[int(e) for e in p.ty.shape] for p in bound.params] == [[n, 8], [rows, 8]]


def test_a_number_stays_a_parameter() -> None:
    bound = bind(sliced(), {"n": 4})
    assert len(bound.params) == 3 and not tirx.is_buffer_var(bound.params[1])
    assert [int(e) for e in bound.params[2].ty.shape] == [3, 8]
    x = np.arange(64, dtype="float32").reshape(8, 8)
    np.testing.assert_array_equal(run(bound, x, 4, np.zeros((3, 8), "float32")), x[1:4])


@T.prim_func(s_tir=True)
def masked(a: T.handle, most: T.int64, times: T.int64, b: T.handle) -> None:
    n = T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i, k in T.grid(n, times):
        with T.sblock("B"):
            vi, _ = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + T.if_then_else(vi < most, A[vi], T.float32(1))


def test_a_number_no_loop_depends_on_is_not_a_dimension() -> None:
    """It stays what it is: a kernel for each value would be one for each position."""
    assert [(s.name, s.param, s.axis) for s in symbols(masked)] == [("n", 0, 0), ("times", 2, None)]
    bound = bind(masked, {"n": 3, "times": 2})
    x = np.arange(3, dtype="float32")
    assert run(bound, x, 1, 2, np.zeros(3, "float32")).tolist() == [0, 2, 2]
    assert run(bound, x, 3, 2, np.zeros(3, "float32")).tolist() == [0, 2, 4]


def test_a_number_has_the_name_of_its_dimension() -> None:
    """Two variables ``n``: what a kernel is called with is looked up by name."""
    n, other = tirx.Var("n", "int64"), tirx.Var("n", "int64")
    a, b = tirx.decl_buffer((n,), name="a"), tirx.decl_buffer((n * other,), name="b")
    func = tirx.PrimFunc([a, other, b], tirx.Evaluate(0))
    assert [s.name for s in symbols(func)] == ["n", "n_1"]
    assert bind(func, {"n": 2, "n_1": 3}).params[1].name == "n_1"


@pytest.mark.parametrize(
    ("values", "message"),
    [({"n": 3}, r"expected values for \['m', 'n'\], got values for \['n'\]"),
     ({"n": 0, "m": 1}, "n must be a positive integer, got 0"),
     ({"n": True, "m": 1}, "n must be a positive integer, got True")],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bind(mixed, values)
