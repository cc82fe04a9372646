"""Blocks whose results depend on the order of their iterations keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.schedule import Scheduled, schedule

from .fused import TARGET, built, run

HEADER = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer({shape}, "float32")):
    T.func_attr({{"tirx.noalias": True}})
"""
#: Sums of the first elements of each row, which give each function something to schedule.
SUMS = """    t = T.sblock_alloc_buffer((4, 6), "float32")
    for i, j, k in T.grid(4, 6, 6):
        with T.sblock("t"):
            v, w, u = T.axis.remap("SSR", [i, j, k])
            with T.init():
                t[v, w] = T.float32(0)
            t[v, w] = t[v, w] + T.if_then_else(u <= w, x[v, u], T.float32(0))
"""
#: The shape of the result, the loops, kinds of the iterators and statements of a block.
BLOCKS: dict[str, tuple[str, str, str, str, list[str]]] = {
    "a reduction that does not commute": (
        "(1,)", "j, i in T.grid(6, 4)", "v, w", '"RR", [i, j]',
        ["with T.init():", "    out[0] = T.float32(1)",
         "out[0] = out[0] * T.float32(-0.5) + t[v, w]"],
    ),
    "the last place of a positive element": (
        "(1,)", "j, i in T.grid(6, 4)", "v, w", '"RR", [i, j]',
        ["with T.init():", "    out[0] = T.float32(-1)",
         "out[0] = T.Select(t[v, w] > 0, T.Cast('float32', v * 6 + w), out[0])"],
    ),
    "several iterations store to one element": (
        "(9,)", "j, i in T.grid(6, 4)", "v, w", '"SS", [i, j]', ["out[v + w] = t[v, w]"],
    ),
    "several iterations update one element": (
        "(4,)", "j, i, k in T.grid(6, 4, 6)", "w, v, u", '"RSS", [j, i, k]',
        ["with T.init():", "    out[v] = T.float32(0)", "out[v] = out[v] + t[v, w] * t[v, u]"],
    ),
    "an element depends on the one before": (
        "(4,)", "j, i in T.grid(6, 4)", "v, w", '"SR", [i, j]',
        ["with T.init():", "    out[v] = T.float32(0)",
         "out[v] = out[v] + t[v, w] * T.if_then_else(v > 0, out[T.max(v - 1, 0)], T.float32(1))"],
    ),
}  # fmt: skip


def _func(case: str) -> Any:
    shape, loops, names, kinds, body = BLOCKS[case]
    text = HEADER.format(shape=shape) + SUMS + f"    for {loops}:\n"
    lines = ['with T.sblock("out"):', f"    {names} = T.axis.remap({kinds})"]
    lines += [f"    {line}" for line in body]
    return tvm.script.from_source(text + "".join(f"        {line}\n" for line in lines))


@pytest.mark.parametrize("case", BLOCKS)
def test_the_result_is_that_of_the_loops(case: str) -> None:
    func = _func(case)
    found = schedule(func, TARGET)
    assert isinstance(found, Scheduled), found
    shape = [int(e) for e in func.params[1].ty.shape]
    x = np.random.default_rng(0).integers(-2, 3, (4, 6)).astype("float32")
    arrays = [x, np.full(shape, 7, "float32")]
    (expected,), (got,) = (run(built(f), arrays) for f in (func, found.func))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_what_keeps_its_loops_reads_no_block_that_is_inlined() -> None:
    """The first block would be inlined into the others; that it was not stored did not build."""
    text = (
        HEADER.format(shape="(9,)")
        + SUMS
        + """    u = T.sblock_alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        with T.sblock("u"):
            v, w = T.axis.remap("SS", [i, j])
            u[v, w] = x[v, w] + T.float32(1)
    for j, i in T.grid(6, 4):
        with T.sblock("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v + w] = t[v, w] + u[v, w]
"""
    )
    func = tvm.script.from_source(text)
    found = schedule(func, TARGET)
    assert isinstance(found, Scheduled), found
    x = np.random.default_rng(0).integers(-2, 3, (4, 6)).astype("float32")
    arrays = [x, np.full((9,), 7, "float32")]
    (expected,), (got,) = (run(built(f), arrays) for f in (func, found.func))
    np.testing.assert_array_equal(got, expected)


def test_a_range_that_depends_on_another_axis_is_not_split_off() -> None:
    """Below a diagonal, the rows of an element begin where its column says."""
    source = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(p_x: T.handle, p_y: T.handle):
    T.func_attr({"tirx.noalias": True})
    n = T.int64()
    m = T.int64()
    x = T.match_buffer(p_x, (n, m), "float32")
    y = T.match_buffer(p_y, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("y"):
            v, w = T.axis.remap("SS", [i, j])
            y[v, w] = T.if_then_else(w <= v + 2, x[v, w], T.float32(0))
"""
    func = tvm.script.from_source(source)
    found = schedule(func, TARGET)
    assert isinstance(found, Scheduled), found
    x = np.arange(1, 46, dtype="float32").reshape(3, 15)
    (got,) = run(built(found.func), [x, np.full((3, 15), 7, "float32")])
    np.testing.assert_array_equal(got, np.tril(x, 2))
