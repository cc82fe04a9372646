# mypy: disable-error-code="no-untyped-def"
"""Blocks that loop over their operand loop over their result, as kernels store it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.byoc.backends.nvidia.passes.loops_by_result import loops_by_result
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled

from ...common.machine import execute
from ...common.prim_funcs import prim_funcs
from .gpu_cases import op, rule_of

#: Index maps, and the shapes of operands.
MAPS: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "channels last": (lambda n, c, h, w: (n, h, w, c), (2, 48, 6, 7), "transposed"),
    "channels first": (lambda n, h, w, c: (n, c, h, w), (2, 6, 7, 48), "transposed"),
    "rows divided": (lambda p, c: (p // 42, c, p % 42), (84, 48), "transposed"),
    "heads": (lambda p, c: (p // 21, c // 16, p % 21, c % 16), (42, 48), "pointwise"),
    "packed": (lambda n, c, h, w: (n, c // 8, h, w, c % 8), (2, 48, 6, 7), "narrow"),
}


def moved(name: str) -> Any:
    """The PrimFunc of a layout transform, as TVM lowers it."""
    index_map, shape, _ = MAPS[name]
    x = relax.Var("x", relax.TensorType(shape, "float16"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.layout_transform(x, index_map=index_map))
        bb.emit_func_output(out)
    return relax.transform.LegalizeOps()(bb.get())


@pytest.mark.parametrize("name", MAPS)
def test_a_layout_transform_has_a_kernel_that_writes_neighbours(name: str) -> None:
    index_map, shape, rule = MAPS[name]
    (before,) = prim_funcs(moved(name))
    (func,) = prim_funcs(loops_by_result(moved(name)))
    assert rule_of(func) == rule
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape) % 2039
    expected = np.zeros([int(e) for e in before.params[1].ty.shape])
    for at in np.ndindex(*shape):
        expected[index_map(*at)] = x[at]
    (found,) = execute(gpu_scheduled(func), [x])
    np.testing.assert_array_equal(found, expected)


def test_loops_are_over_what_is_stored() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(s_tir=True)
        def main(x: T.Buffer((6, 4), "float32"), y: T.Buffer((2, 4, 3), "float32")):
            T.func_attr({"tirx.noalias": True})
            for i, j in T.grid(6, 4):
                with T.sblock("y"):
                    p, c = T.axis.remap("SS", [i, j])
                    y[p // 3, c, p % 3] = x[p, c]

    @I.ir_module
    class Expected:
        @T.prim_func(s_tir=True)
        def main(x: T.Buffer((6, 4), "float32"), y: T.Buffer((2, 4, 3), "float32")):
            T.func_attr({"tirx.noalias": True})
            for i, j, k in T.grid(2, 4, 3):
                with T.sblock("y"):
                    n, c, p = T.axis.remap("SSS", [i, j, k])
                    y[n, c, p] = x[n * 3 + p, c]

    tvm.ir.assert_structural_equal(loops_by_result(Before), Expected)
    assert loops_by_result(Expected).same_as(Expected)


def _twice(p: Any) -> Any:
    return p // 2


def _half(p: Any) -> Any:
    return p * 2


@pytest.mark.parametrize("place", [_twice, _half])
def test_places_that_are_stored_never_or_twice_are_left(place: Callable[[Any], Any]) -> None:
    x, y = (tirx.decl_buffer((12,), "float32", name) for name in "xy")
    p, i = tirx.Var("p", "int32"), tirx.Var("i", "int32")
    body = tirx.BufferStore(y, tirx.BufferLoad(x, [p]), [place(p)])
    axis = tirx.IterVar(tvm.ir.Range(0, 6), p, tirx.IterVar.DataPar)
    block = tvm.s_tir.SBlockRealize([i], True, tvm.s_tir.SBlock([axis], [], [], "y", body))
    root = tvm.s_tir.SBlock([], [], [], "root", tirx.For(i, 0, 6, tirx.ForKind.SERIAL, block))
    func = tirx.PrimFunc([x, y], tvm.s_tir.SBlockRealize([], True, root))
    mod = tvm.IRModule({"main": func.with_attr("s_tir", True)})
    assert loops_by_result(mod).same_as(mod)


def test_a_block_whose_order_matters_is_left() -> None:
    """It reads what it stores: x[1, 0] is that of before or after, by the order of loops."""

    @I.ir_module
    class InPlace:
        @T.prim_func(s_tir=True)
        def main(x: T.Buffer((4, 4), "float32")):
            for i, j in T.grid(4, 4):
                with T.sblock("x"):
                    p, c = T.axis.remap("SS", [i, j])
                    x[c, p] = x[p, c] + T.float32(1)

    assert loops_by_result(InPlace).same_as(InPlace)


def test_a_block_with_a_condition_is_left() -> None:
    """The condition is on a loop that the new block has not."""

    @I.ir_module
    class Conditional:
        @T.prim_func(s_tir=True)
        def main(x: T.Buffer((6, 4), "float32"), y: T.Buffer((4, 6), "float32")):
            for i, j in T.grid(6, 4):
                with T.sblock("y"):
                    p, c = T.axis.remap("SS", [i, j])
                    T.where(i < 3)
                    y[c, p] = x[p, c]

    assert loops_by_result(Conditional).same_as(Conditional)
