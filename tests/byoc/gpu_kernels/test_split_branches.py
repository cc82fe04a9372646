"""Loops over concatenated tensors are split where the tensor changes; others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.loops.split_branches import split_branches
from opinfo.testing.unoptimised import unoptimised


@I.ir_module(s_tir=True)
class Before:
    @T.prim_func(private=True, s_tir=True)
    def f(
        a: T.Buffer((4, 5), "float32"),
        b: T.Buffer((4, 3), "float32"),
        y: T.Buffer((4, 8), "float32"),
    ) -> None:
        for i, j in T.grid(4, 8):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(b[vi, vj - 5], a[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = T.if_then_else(5 <= vj, b[vi, vj - 5], a[vi, vj])


@I.ir_module(s_tir=True)
class Expected:
    @T.prim_func(private=True, s_tir=True)
    def f(
        a: T.Buffer((4, 5), "float32"),
        b: T.Buffer((4, 3), "float32"),
        y: T.Buffer((4, 8), "float32"),
    ) -> None:
        for i, j in T.grid(4, 5):
            with T.sblock("y"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(8, j)
                T.reads(a[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = a[vi, vj]
        for i, j in T.grid(4, 3):
            with T.sblock("y"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(8, j + 5)
                T.reads(b[vi, vj - 5])
                T.writes(y[vi, vj])
                y[vi, vj] = b[vi, vj - 5]


@I.ir_module(s_tir=True)
class Kept:
    @T.prim_func(private=True, s_tir=True)
    def every_other(
        a: T.Buffer((5,), "float32"), b: T.Buffer((3,), "float32"), y: T.Buffer((8,), "float32")
    ) -> None:
        for j in T.serial(0, 8, step=2):
            with T.sblock("y"):
                vj = T.axis.spatial(8, j)
                T.reads(b[vj - 5], a[vj])
                T.writes(y[vj])
                y[vj] = T.if_then_else(5 <= vj, b[vj - 5], a[vj])

    @T.prim_func(private=True, s_tir=True)
    def over_itself(a: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        for j in range(8):
            with T.sblock("y"):
                vj = T.axis.spatial(8, j)
                T.reads(y[vj - 5], a[vj])
                T.writes(y[vj])
                y[vj] = T.if_then_else(5 <= vj, y[vj - 5], a[vj])

    @T.prim_func(private=True, s_tir=True)
    def onto_one(a: T.Buffer((8,), "float32"), y: T.Buffer((1,), "float32")) -> None:
        for j in range(8):
            with T.sblock("y"):
                vj = T.axis.spatial(8, j)
                T.reads(a[vj], a[vj - 5])
                T.writes(y[0])
                y[0] = T.if_then_else(5 <= vj, a[vj - 5], a[vj])

    @T.prim_func(private=True, s_tir=True)
    def of_a_sum(a: T.Buffer((8, 8), "float32"), y: T.Buffer((8, 8), "float32")) -> None:
        for i, j in T.grid(8, 8):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(a[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = T.if_then_else(5 <= vi + vj, a[vi, vj], T.float32(0))

    @T.prim_func(private=True, s_tir=True)
    def of_a_triangle(a: T.Buffer((8, 8), "float32"), y: T.Buffer((8, 8), "float32")) -> None:
        for i in range(8):
            for j in range(i):
                with T.sblock("y"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(i, j)
                    T.reads(a[vi, vj], a[vi - 5, vj])
                    T.writes(y[vi, vj])
                    y[vi, vj] = T.if_then_else(5 <= vi, a[vi - 5, vj], a[vi, vj])


def test_a_nest_of_each_tensor() -> None:
    tvm.ir.assert_structural_equal(split_branches(Before), Expected)


def test_loops_that_cannot_be_split_stay() -> None:
    tvm.ir.assert_structural_equal(split_branches(Kept), Kept)


@pytest.mark.parametrize("compare", ["4 > vj", "vj < 4", "3 >= vj", "vj <= 3", "vj > 3", "3 < vj",
                                     "vj >= 4", "4 <= vj"])  # fmt: skip
def test_each_comparison_splits_at_its_bound(compare: str) -> None:
    before: Any = Before
    text = before.script().replace("5 <= vj", compare).replace("vj - 5", "vj % 3").replace(
        "a[vi, vj]", "a[vi, vj % 5]")  # fmt: skip
    mod = tvm.script.from_source(text)
    nests: list[Any] = []
    new = split_branches(mod)
    tvm_ffi.structural_walk(new["f"].body, (tvm.s_tir.SBlockRealize, nests.append))
    assert len(nests) == 3  # with the root
    _same(mod, new, "f")


def _same(mod: Any, new: Any, name: str) -> None:
    """Both modules' functions compute the same for random inputs, bit for bit."""
    results = []
    for each in (mod, new):
        func = each[name].with_attr("global_symbol", "main")
        random = np.random.default_rng(0)
        args = [tvm.runtime.tensor(random.random([int(e) for e in p.ty.shape], "float32"))
                for p in func.params]  # fmt: skip
        unoptimised(tvm.IRModule({"main": func}))["main"](*args)
        results.append(args[-1].numpy())
    np.testing.assert_array_equal(*results)


def _concat(axis: int) -> Any:
    shapes = [tuple(c if k == axis else 3 for k in range(4)) for c in (2, 1, 3, 2)]
    params = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit(relax.op.nn.relu(relax.op.concat(relax.Tuple(params), axis)))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return fuse(legalise_module(builder.get()))


@pytest.mark.parametrize("axis", [1, 3])
def test_fused_concats_compute_the_same(axis: int) -> None:
    mod = _concat(axis)
    (name,) = (g.name_hint for g, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    new = split_branches(mod)
    assert "if_then_else" in mod[name].script() and "if_then_else" not in new[name].script()
    _same(mod, new, name)
