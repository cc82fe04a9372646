"""Choices and terms over symbolic sizes: which are decided and dropped, which stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

from opinfo.byoc.prepare.constants.uniform_values import fold_uniform_values
from opinfo.byoc.prepare.prepare import prepare

from ....common.run import run

op = relax.op
N = tvm.tirx.Var("n", "int64")
Build = Callable[[Any, Any], Any]


def const(value: Any, dtype: str) -> Any:
    return relax.const(value if isinstance(value, (int, float)) else value.astype(dtype), dtype)


def module(build: Build, dtype: str = "float32") -> Any:
    """A function of a tensor (n, n)."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((N, N), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(out)
    return builder.get()


def positions(e: Any, start: int = 0, dtype: str = "int64") -> Any:
    return e(op.expand_dims(e(op.arange(start, N + start, 1, dtype=dtype)), [0]))


def masked(test: Callable[[Any], Any], hidden: float = -np.inf) -> Build:
    """The tensor plus 0 where a mask is true, ``hidden`` elsewhere."""

    def build(e: Any, x: Any) -> Any:
        mask = e(op.broadcast_to(test(e), (N, N)))
        return op.add(
            e(op.abs(x)), e(op.where(mask, const(0.0, "float32"), const(hidden, "float32")))
        )

    return build


def names(mod: Any) -> list[str]:
    calls: list[Any] = []
    tvm_ffi.structural_walk(mod["main"], (relax.Call, calls.append))
    return [call.op.name.removeprefix("relax.") for call in calls]


def zero() -> Any:
    return const(0, "int64")


DROPPED: dict[str, Build] = {
    "positions are not negative": masked(lambda e: e(op.greater_equal(positions(e), zero()))),
    "a constant is at most a position": masked(lambda e: e(op.less_equal(zero(), positions(e)))),
    "positions from 3 are above 2": masked(
        lambda e: e(op.greater(positions(e, 3), const(2, "int64")))),
    "shifted positions": masked(
        lambda e: e(op.greater(e(op.add(positions(e), const(1, "int64"))), zero()))),
    "not hidden": masked(lambda e: e(op.logical_not(e(op.less(positions(e), zero()))))),
    "one of two": masked(lambda e: e(op.logical_or(
        e(op.less(positions(e), const(4, "int64"))), e(op.greater_equal(positions(e), zero()))))),
    "both branches are zero": masked(
        lambda e: e(op.less(positions(e), const(4, "int64"))), hidden=0.0),
}  # fmt: skip
KEPT: dict[str, Build] = {
    "the first position is 0": masked(lambda e: e(op.greater(positions(e), zero()))),
    "no end is known": masked(lambda e: e(op.less(positions(e), const(1 << 40, "int64")))),
    "a difference of positions": masked(lambda e: e(op.greater_equal(
        e(op.subtract(positions(e), const(1, "int64"))), zero()))),
    "32 bits may wrap": masked(lambda e: e(op.greater_equal(
        e(op.add(positions(e, dtype="int32"), const(1, "int32"))), const(0, "int32")))),
    "64 bits are more than a float64 has": masked(
        lambda e: e(op.greater_equal(e(op.full((1, N), const(2**53, "int64"), "int64")),
                                     const(2**53 + 1, "int64")))),
    "a number is cut": masked(lambda e: e(op.greater(
        e(op.full((1, N), const(0.5, "float32"), "int32")), const(0, "int32")))),
    "positions of 8 bits wrap": masked(lambda e: e(op.greater_equal(
        positions(e, dtype="int8"), const(0, "int8")))),
    "a parameter is not a result": lambda e, x: op.add(x, e(op.zeros((N, N), "float32"))),
    "all are hidden": masked(lambda e: e(op.less(positions(e), zero()))),
    "the mask depends on the tensor": lambda e, x: op.add(x, e(op.where(
        e(op.greater_equal(x, const(0.0, "float32"))), const(0.0, "float32"),
        const(1.0, "float32")))),
    "a broadcast term": lambda e, x: op.add(
        e(op.sum(x, [0], keepdims=True)), e(op.zeros((N, N), "float32"))),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPPED)
def test_what_is_decided_for_all_sizes_is_dropped(name: str) -> None:
    mod = module(DROPPED[name])
    assert "add" in names(mod)
    folded = fold_uniform_values(mod)
    assert names(folded) == ["abs"]
    assert "where" in names(mod)  # the input is not changed


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_decided_stays(name: str) -> None:
    assert "add" in names(fold_uniform_values(module(KEPT[name])))


def test_a_decided_choice_is_spread_to_its_shape() -> None:
    def build(e: Any, x: Any) -> Any:
        mask = e(op.broadcast_to(e(op.greater_equal(positions(e), zero())), (N, N)))
        return op.where(mask, e(op.sum(x, [0], keepdims=True)), x)

    def expected(e: Any, x: Any) -> Any:
        return op.broadcast_to(e(op.sum(x, [0], keepdims=True)), relax.ShapeExpr((N, N)))

    tvm.ir.assert_structural_equal(
        fold_uniform_values(module(build)), module(expected), map_free_vars=True)  # fmt: skip


def test_results_are_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((5, 5)).astype("float32")
    for build in list(KEPT.values()) + list(DROPPED.values()):
        mod = module(build)
        np.testing.assert_array_equal(run(fold_uniform_values(mod), [x]), run(mod, [x]))


def weighted(spread: tuple[Any, ...], weight: tuple[Any, ...]) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((N, 3, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            w = const(np.random.default_rng(1).standard_normal(weight), "float32")
            every = builder.emit(op.broadcast_to(w, spread))
            out = builder.emit_output(op.matmul(x, every))
        builder.emit_func_output(out)
    return builder.get()


def test_a_product_reads_weights_that_are_not_spread() -> None:
    mod = weighted((N, 4, 5), (4, 5))
    assert not any(isinstance(f, tvm.tirx.PrimFunc) and "broadcast" in g.name_hint
                   for g, f in prepare(mod).functions_items())  # fmt: skip
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    np.testing.assert_allclose(run(prepare(mod), [x])[0], run(mod, [x])[0], rtol=1e-5)


def test_weights_that_make_the_batch_stay_spread() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 4), "float32"))
    y = relax.Var("y", relax.TensorType((N,), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            every = builder.emit(op.broadcast_to(const(np.ones((4, 5)), "float32"), (N, 4, 5)))
            out = builder.emit_output(op.matmul(x, every))
        builder.emit_func_output(out)
    mod = builder.get()
    assert any("broadcast" in g.name_hint for g, _ in prepare(mod).functions_items())


def test_a_module_that_writes_in_place_stays() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((N,), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(op.add(builder.emit(op.abs(x)), builder.emit(op.zeros((N,), "float32"))))
        double = builder.add_func(_double(), "double")
        z = builder.emit(op.call_tir_inplace(double, y, [0], y.ty))
        builder.emit_func_output(z)
    mod = builder.get()
    assert fold_uniform_values(mod).same_as(mod)


def _double() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(private=True, s_tir=True)
    def double(y: T.handle) -> None:
        n = T.int64()
        given = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            with T.sblock("double"):
                v = T.axis.spatial(n, i)
                given[v] = given[v] * T.float32(2)

    return double
