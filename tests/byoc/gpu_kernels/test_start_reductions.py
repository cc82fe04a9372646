"""Reductions over no elements: their start is not left to a first iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.byoc.compile import compile_module
from opinfo.byoc.prepare.loops.start_reductions import start_reductions

from ...layout import nets

op = relax.op


@I.ir_module(s_tir=True)
class Before:
    @T.prim_func(s_tir=True)
    def main(x_: T.handle, y: T.Buffer((4,), "float32")) -> None:
        n = T.int64()
        x = T.match_buffer(x_, (4, n))
        for i, k in T.grid(4, n):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(x[vi, vk])
                T.writes(y[vi])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + x[vi, vk]


@I.ir_module(s_tir=True)
class Expected:
    @T.prim_func(s_tir=True)
    def main(x_: T.handle, y: T.Buffer((4,), "float32")) -> None:
        n = T.int64()
        x = T.match_buffer(x_, (4, n))
        for i in range(4):
            with T.sblock("sum_init"):
                vi = T.axis.spatial(4, i)
                T.reads()
                T.writes(y[vi])
                y[vi] = T.float32(0)
            for k in range(n):
                with T.sblock("sum_update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(y[vi], x[vi, vk])
                    T.writes(y[vi])
                    y[vi] = y[vi] + x[vi, vk]


def test_a_reduction_that_may_be_empty_starts_before_its_loop() -> None:
    mod: Any = Before
    before = mod.clone()
    tvm.ir.assert_structural_equal(start_reductions(mod), Expected)
    tvm.ir.assert_structural_equal(mod, before)


@pytest.mark.parametrize("extent", ["8", "n + 1"])
def test_other_reductions_stay(extent: str) -> None:
    before: Any = Before
    text = before.script().replace("(4, n)", f"(4, {extent})")
    mod = tvm.script.from_source(text)
    tvm.ir.assert_structural_equal(start_reductions(mod), mod)


@pytest.mark.parametrize("axis", [[0], [1], [0, 1]])
def test_a_sum_of_nothing_is_zero(axis: list[int]) -> None:
    """The memory of the result still holds that of the call before."""
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")

    def build(e: Any, r: Any, x: Any) -> Any:
        return e(op.sum(e(op.exp(x)), axis))

    machine = compile_module(nets.net(build, (n, m), legal=False), []).machine()
    for shape in ((3, 5), (0, 5), (3, 5), (3, 0), (2, 2), (0, 0)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        got = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, np.exp(x).sum(tuple(axis)), rtol=1e-5)
