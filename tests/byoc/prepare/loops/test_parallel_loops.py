"""Loops of TVM's code that are divided among threads."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.byoc.prepare.loops.parallel_loops import FEWEST, parallel_loops


@I.ir_module(s_tir=True)
class Before:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((1, 4, 64, 256), "float32"), y: T.Buffer((1, 4, 64, 256), "float32"),
        z: T.Buffer((4,), "float32"),
    ) -> None:  # fmt: skip
        for n, c, h, w in T.grid(1, 4, 64, 256):
            with T.sblock("y"):
                vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
                y[vn, vc, vh, vw] = x[vn, vc, vh, vw] * T.float32(2)
        for c, h, w in T.grid(4, 64, 256):
            with T.sblock("z"):
                vc, vh, vw = T.axis.remap("SRR", [c, h, w])
                with T.init():
                    z[vc] = T.float32(0)
                z[vc] = z[vc] + y[0, vc, vh, vw]


@I.ir_module(s_tir=True)
class Expected:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((1, 4, 64, 256), "float32"), y: T.Buffer((1, 4, 64, 256), "float32"),
        z: T.Buffer((4,), "float32"),
    ) -> None:  # fmt: skip
        for nch in T.parallel(256):
            for w in range(256):
                with T.sblock("y"):
                    vn = T.axis.spatial(1, 0)
                    vc = T.axis.spatial(4, nch // 64)
                    vh = T.axis.spatial(64, nch % 64)
                    vw = T.axis.spatial(256, w)
                    y[vn, vc, vh, vw] = x[vn, vc, vh, vw] * T.float32(2)
        for c in T.parallel(4):
            for h, w in T.grid(64, 256):
                with T.sblock("z"):
                    vc, vh, vw = T.axis.remap("SRR", [c, h, w])
                    with T.init():
                        z[vc] = T.float32(0)
                    z[vc] = z[vc] + y[0, vc, vh, vw]


def test_outer_loops_with_enough_iterations_are_divided() -> None:
    mod: Any = Before
    before = mod.clone()
    tvm.ir.assert_structural_equal(parallel_loops(mod, 2), Expected)
    tvm.ir.assert_structural_equal(mod, before)


def elementwise(rows: int, columns: int, kind: str) -> Any:
    """A PrimFunc over so many elements: along spatial axes, or in order along the first one."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((rows, columns), "float32"), y: T.Buffer((rows + 1, columns), "float32")
    ) -> None:  # fmt: skip
        for i, j in T.grid(rows, columns):
            with T.sblock("y"):
                vi, vj = T.axis.remap(kind, [i, j])
                y[vi + 1, vj] = y[vi, vj] + x[vi, vj]

    return tvm.IRModule({"main": main})


@pytest.mark.parametrize(
    ("rows", "columns", "kind"),
    [
        (1, FEWEST - 1, "SS"),  # short
        (FEWEST, 1, "RS"),  # a row needs the previous one
        (FEWEST, 2, "SS"),  # axes are said to be spatial, but a row reads what another one writes
    ],
)
def test_other_loops_stay_serial(rows: int, columns: int, kind: str) -> None:
    mod = elementwise(rows, columns, kind)
    tvm.ir.assert_structural_equal(parallel_loops(mod, 2), mod)


LONG = 8 * FEWEST


@T.prim_func(s_tir=True)
def scattered(
    x: T.Buffer((LONG,), "float32"), idx: T.Buffer((LONG,), "int32"),
    out: T.Buffer((LONG,), "float32"),
) -> None:  # fmt: skip
    for i in range(LONG):
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            out[idx[vi]] = x[vi]


@T.prim_func(s_tir=True)
def wrapped(x: T.Buffer((LONG,), "float32"), out: T.Buffer((256,), "float32")) -> None:
    for i in range(LONG):
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            out[vi % 256] = x[vi]


@T.prim_func(s_tir=True)
def mirrored(x: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")) -> None:
    for i, j in T.grid(512, 512):
        with T.sblock("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, vj]
            out[vj, vi] = x[vi, vj]


@T.prim_func(s_tir=True)
def two_blocks(
    x: T.Buffer((LONG,), "float32"), y: T.Buffer((LONG,), "float32"),
    out: T.Buffer((256,), "float32"),
) -> None:  # fmt: skip
    for i in range(LONG):
        with T.sblock("y"):
            vi = T.axis.spatial(LONG, i)
            y[vi] = x[vi]
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            out[vi % 256] = x[vi]


@T.prim_func(s_tir=True)
def own_parallel(x: T.Buffer((64, 1024), "float32"), y: T.Buffer((64, 1024), "float32")) -> None:
    for i in range(64):
        for j in T.parallel(1024):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + T.float32(1)


@T.prim_func(s_tir=True)
def own_vectors(x: T.Buffer((8192, 8), "float32"), y: T.Buffer((8192, 8), "float32")) -> None:
    for i in range(8192):
        for j in T.vectorized(8):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + T.float32(1)


@pytest.mark.parametrize("func", [scattered, wrapped, mirrored, two_blocks])
def test_loops_that_write_an_element_several_times_stay_serial(func: Any) -> None:
    """The last iteration must win, as TVM's own code lets it."""
    mod = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(parallel_loops(mod, 2), mod)


@pytest.mark.parametrize("func", [own_parallel, own_vectors])
def test_functions_that_have_a_schedule_keep_it(func: Any) -> None:
    mod = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(parallel_loops(mod, 2), mod)
