"""Loops over threads of a GPU run one after another on a CPU, if the threads are independent."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.byoc.prepare.loops.serial_threads import serial_threads

N, LENGTH = 70, 6


@I.ir_module
class Best:
    """The largest element of each row and its place, as routing of MLC-LLM computes them.

    The place is first stored beside its buffer, which lies beside the one of the largest element.
    """

    @T.prim_func(private=True, s_tir=True)
    def best(x: T.Buffer((70, 6), "float32"), value: T.Buffer((70,), "float32"),
             place: T.Buffer((70,), "int32")) -> None:  # fmt: skip
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        largest = T.sblock_alloc_buffer((1,), "float32", scope="local")
        at = T.sblock_alloc_buffer((1,), "int32", scope="local")
        for block in T.thread_binding(3, thread="blockIdx.x"):
            for thread in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("best"):
                    v = T.axis.spatial(70, block * 32 + thread)
                    T.where(block * 32 + thread < 70)
                    T.reads(x[v, 0:6], largest[0], at[0])
                    T.writes(largest[0], at[0], value[v], place[v])
                    largest[0] = T.float32(-65504.0)
                    at[-1] = 7
                    for k in range(6):
                        if x[v, k] > largest[0]:
                            largest[0] = x[v, k]
                            at[0] = k
                    value[v] = largest[0]
                    place[v] = at[0]

    @R.function
    def main(
        x: R.Tensor((70, 6), "float32"),
    ) -> R.Tuple(R.Tensor((70,), "float32"), R.Tensor((70,), "int32")):
        cls = Best
        with R.dataflow():
            out = R.call_tir(cls.best, (x,), out_ty=[R.Tensor((70,), "float32"),
                                                     R.Tensor((70,), "int32")])  # fmt: skip
            R.output(out)
        return out


@I.ir_module
class Reversed:
    """Threads of a block read what others have stored in shared memory."""

    @T.prim_func(private=True, s_tir=True)
    def swap(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
        shared = T.sblock_alloc_buffer((64,), "float32", scope="shared")
        for thread in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("in"):
                v = T.axis.spatial(64, thread)
                shared[v] = x[v]
            with T.sblock("out"):
                v = T.axis.spatial(64, thread)
                y[v] = T.exp(shared[63 - v])

    @R.function
    def main(x: R.Tensor((64,), "float32")) -> R.Tensor((64,), "float32"):
        cls = Reversed
        with R.dataflow():
            y = R.call_tir(cls.swap, (x,), out_ty=R.Tensor((64,), "float32"))
            R.output(y)
        return y


@T.prim_func(s_tir=True)
def siblings(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    own = T.sblock_alloc_buffer((1,), "float32", scope="local")
    for thread in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("in"):
            v = T.axis.spatial(8, thread)
            own[0] = x[v]
    for thread in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("out"):
            v = T.axis.spatial(8, thread)
            y[v] = own[0]


@T.prim_func(s_tir=True)
def repeated(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")) -> None:
    own = T.sblock_alloc_buffer((1,), "float32", scope="local")
    for step in range(4):
        for thread in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("sum"):
                v, k = T.axis.remap("SR", [thread, step])
                own[0] = T.if_then_else(k == 0, T.float32(0), own[0]) + x[v, k]
                y[v] = own[0]


@T.prim_func(s_tir=True)
def declared(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    shared = T.alloc_buffer((8,), "float32", scope="shared")
    for thread in T.thread_binding(8, thread="threadIdx.x"):
        shared[thread] = x[thread]
        y[thread] = shared[7 - thread]


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (siblings, "keep own from one loop to another"),
        (repeated, "keep own from one loop to another"),
        (declared, "share memory (shared)"),
    ],
)
def test_threads_that_need_each_other_or_their_past_are_refused(func: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        serial_threads(tvm.IRModule({"main": func}))


@pytest.mark.parametrize("options", [{"backends": []}, {"shapes": "generic"}])
def test_independent_threads_run_in_order(options: Any) -> None:
    x = np.random.default_rng(0).standard_normal((N, LENGTH)).astype("float32")
    value, place = opinfo.compile(Best, **options).run(x)
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(place, x.argmax(1))


def test_a_store_beside_an_allocated_buffer_is_dropped() -> None:
    text = serial_threads(Best)["best"].script()
    assert "at[-1]" in Best["best"].script() and "at[-1]" not in text
    assert "thread_binding" not in text


@pytest.mark.parametrize("options", [{"backends": []}, {"shapes": "generic"}])
def test_threads_that_share_memory_run_statement_by_statement(options: Any) -> None:
    x = np.random.default_rng(0).standard_normal(64).astype("float32")
    y = opinfo.compile(Reversed, **options).run(x)
    np.testing.assert_allclose(y, np.exp(x[::-1]), rtol=1e-6)


def test_a_store_to_the_next_row_is_kept() -> None:
    """TVM numbers elements by rows, so that [0, 3] of a buffer of 2 x 3 is [1, 0]."""

    @I.ir_module
    class NextRow:
        @T.prim_func(private=True, s_tir=True)
        def kernel(x: T.Buffer((8, 2, 3), "float32"), y: T.Buffer((8, 2, 3), "float32")) -> None:
            for thread in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("b"):
                    v = T.axis.spatial(8, thread)
                    kept = T.sblock_alloc_buffer((2, 3), "float32", scope="local")
                    for i, j in T.grid(2, 3):
                        kept[i, j] = x[v, i, j]
                    kept[0, 3] = T.float32(7)
                    kept[2, 0] = T.float32(8)
                    for i, j in T.grid(2, 3):
                        y[v, i, j] = kept[i, j]

        @R.function
        def main(x: R.Tensor((8, 2, 3), "float32")) -> R.Tensor((8, 2, 3), "float32"):
            cls = NextRow
            with R.dataflow():
                out = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((8, 2, 3), "float32"))
                R.output(out)
            return out

    x = np.random.default_rng(0).standard_normal((8, 2, 3)).astype("float32")
    expected = x.copy()
    expected[:, 1, 0] = 7
    np.testing.assert_array_equal(opinfo.compile(NextRow, []).run(x), expected)


def test_functions_for_a_gpu_are_compiled_for_the_cpu() -> None:
    cuda = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host={"kind": "llvm"})
    mod: Any = Reversed
    mod = mod.clone()
    mod.update_func(mod.get_global_var("swap"), mod["swap"].with_attr("target", cuda))
    x = np.random.default_rng(0).standard_normal(64).astype("float32")
    np.testing.assert_allclose(opinfo.compile(mod, []).run(x), np.exp(x[::-1]), rtol=1e-6)


def test_functions_without_threads_stay() -> None:
    plain = serial_threads(Best)
    assert serial_threads(plain) is plain
    assert tvm_ffi.structural_equal(serial_threads(Best)["main"], Best["main"])
