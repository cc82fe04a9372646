"""Rewrites of loops do not trust what blocks declare to read, nor that buffers are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from opinfo.byoc.prepare.loops.parallel_loops import FEWEST, parallel_loops
from opinfo.byoc.prepare.loops.split_branches import split_branches
from opinfo.testing.unoptimised import unoptimised

LONG = 8 * FEWEST


@T.prim_func(s_tir=True)
def running_sum(x: T.Buffer((LONG,), "float32"), out: T.Buffer((LONG,), "float32")) -> None:
    for i in range(LONG):
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            T.reads(x[vi])
            T.writes(out[vi])
            out[vi] = T.if_then_else(vi > 0, out[vi - 1] + x[vi], x[vi])


@T.prim_func(s_tir=True)
def running_pair(
    x: T.Buffer((LONG,), "float32"), y: T.Buffer((LONG,), "float32"),
    out: T.Buffer((LONG,), "float32"),
) -> None:  # fmt: skip
    for i in range(LONG):
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            T.reads(x[vi])
            T.writes(y[vi], out[vi])
            y[vi] = x[vi]
            out[vi] = T.if_then_else(vi > 0, y[vi - 1], x[vi])


@T.prim_func(s_tir=True)
def through_a_view(x: T.Buffer((LONG,), "float32"), out: T.Buffer((LONG,), "float32")) -> None:
    view = T.decl_buffer((LONG,), data=out.data)
    for i in range(LONG):
        with T.sblock("out"):
            vi = T.axis.spatial(LONG, i)
            T.reads(x[vi])
            T.writes(out[vi])
            out[vi] = T.if_then_else(vi > 0, view[vi - 1] + x[vi], x[vi])


@pytest.mark.parametrize("func", [running_sum, running_pair, through_a_view])
def test_iterations_that_need_earlier_ones_stay_serial(func: Any) -> None:
    mod = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(parallel_loops(mod, 2), mod)


def test_a_loop_that_reads_through_a_view_is_not_split() -> None:
    """Row 0 reads what row 1 holds in its last columns, before row 1 stores there."""

    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((2, 6), "float32"), out: T.Buffer((2, 6), "float32")) -> None:
        view = T.decl_buffer((12,), data=out.data)
        for i, j in T.grid(2, 6):
            with T.sblock("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.if_then_else(vj < 3, x[vi, vj], view[(vi * 6 + vj + 4) % 12])

    x = np.arange(12, dtype="float32").reshape(2, 6)
    results = []
    for mod in (tvm.IRModule({"main": func}), split_branches(tvm.IRModule({"main": func}))):
        out = tvm.runtime.tensor(np.full((2, 6), 100, "float32"))
        unoptimised(mod)["main"](tvm.runtime.tensor(x), out)
        results.append(out.numpy())
    np.testing.assert_array_equal(*results)
