"""Reductions whose start is not left to a first iteration: over no elements, of whole tensors."""

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


WHOLE = """
@I.ir_module(s_tir=True)
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((1, 3, 4), "float32"), y: T.Buffer((1,), "float32")) -> None:
        for i, j, k in T.grid(1, 3, 4):
            with T.sblock("most"):
                vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                T.reads(x[vi, vj, vk])
                T.writes(y[vi])
                with T.init():
                    y[vi] = T.float32(-1)
                y[vi] = T.max(y[vi], x[vi, vj, vk])
"""
WHOLE_STARTED = """
@I.ir_module(s_tir=True)
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((1, 3, 4), "float32"), y: T.Buffer((1,), "float32")) -> None:
        for i in range(1):
            with T.sblock("most_init"):
                vi = T.axis.spatial(1, i)
                T.reads()
                T.writes(y[vi])
                y[vi] = T.float32(-1)
            for j, k in T.grid(3, 4):
                with T.sblock("most_update"):
                    vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                    T.reads(y[vi], x[vi, vj, vk])
                    T.writes(y[vi])
                    y[vi] = T.max(y[vi], x[vi, vj, vk])
"""


def test_a_reduction_of_a_whole_tensor_starts_before_its_loops() -> None:
    """Otherwise LLVM unrolls the nest with the test for the first iteration: seconds of CPU."""
    mod, expected = map(tvm.script.from_source, (WHOLE, WHOLE_STARTED))
    tvm.ir.assert_structural_equal(start_reductions(mod), expected)


@pytest.mark.parametrize(
    "shape",
    ["(2, 3, 4)", "(1, 1, 4)"],
    ids=["one number a row", "one loop"],
)
def test_a_reduction_by_rows_or_of_one_loop_stays(shape: str) -> None:
    text = WHOLE.replace("Buffer((1, 3, 4)", f"Buffer({shape}").replace(
        "grid(1, 3, 4)", f"grid{shape}"
    )
    mod = tvm.script.from_source(text.replace("Buffer((1,)", "Buffer((2,)"))
    tvm.ir.assert_structural_equal(start_reductions(mod), mod)


@pytest.mark.parametrize("reduce", ["sum", "max", "min", "mean"])
def test_results_of_whole_tensors_are_those_of_numpy(reduce: str) -> None:
    shape = (1, 3, 4, 5)
    built = nets.net(lambda e, r, x: e(getattr(op, reduce)(e(op.exp(x)))), shape, legal=False)
    machine = compile_module(built, []).machine()
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    got = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(got, getattr(np, reduce)(np.exp(x)), rtol=1e-5)


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
