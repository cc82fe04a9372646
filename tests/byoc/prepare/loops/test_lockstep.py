"""Threads of a GPU that need each other run statement by statement on a CPU: equal to numpy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from opinfo.byoc.prepare.loops.serial_threads import serial_threads

RNG = np.random.default_rng(0)


def run(func: Any, *arrays: Any) -> None:
    """Compile a PrimFunc for this CPU and call it; the arrays are updated."""
    mod = serial_threads(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.compile(mod, target="llvm")["main"](*tensors)
    for array, tensor in zip(arrays, tensors, strict=True):
        array[...] = tensor.numpy()


@T.prim_func(s_tir=True)
def grouped(var_x: T.handle, w: T.Buffer((3, 20, 8), "float32"), starts: T.Buffer((4,), "int32"),
            var_out: T.handle) -> None:  # fmt: skip
    """Rows starts[e] to starts[e + 1] times matrix e: blocks walk over tiles of 4 x 8."""
    n = T.int32()
    x = T.match_buffer(var_x, (n, 8), "float32")
    out = T.match_buffer(var_out, (n, 20), "float32")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        with T.sblock("block"):
            v = T.axis.spatial(2, b)
            T.reads(x[:, :], w[:, :, :], starts[:])
            T.writes(out[:, :])
            tiles = T.sblock_alloc_buffer((2,), "int32", scope="local")
            expert = T.sblock_alloc_buffer((1,), "int32", scope="local")
            tile = T.sblock_alloc_buffer((1,), "int32", scope="local")
            tiles[0] = 0
            tiles[1] = T.ceildiv(starts[1] - starts[0], 4) * 3
            expert[0] = 0
            tile[0] = v
            while T.tvm_thread_invariant(expert[0] < 3):
                while tiles[1] <= tile[0] and expert[0] < 3:
                    expert[0] += 1
                    if expert[0] < 3:
                        n_e: T.int32 = starts[expert[0] + 1] - starts[expert[0]]
                        tiles[0] = tiles[1]
                        tiles[1] += T.ceildiv(n_e, 4) * 3
                T.tvm_storage_sync("shared")
                if T.tvm_thread_invariant(expert[0] < 3):
                    e: T.int32 = expert[0]
                    row: T.int32 = (tile[0] - tiles[0]) // 3 * 4 + starts[e]
                    column: T.int32 = (tile[0] - tiles[0]) % 3 * 8
                    with T.sblock("tile"):
                        T.reads(x[:, :], w[:, :, :], starts[:])
                        T.writes(out[:, :])
                        rows = T.sblock_alloc_buffer((4, 8), "float32", scope="shared")
                        total = T.sblock_alloc_buffer((4, 8), "float32", scope="local")
                        for ty in T.thread_binding(4, thread="threadIdx.y"):
                            for tx in T.thread_binding(8, thread="threadIdx.x"):
                                with T.sblock("rows"):
                                    i, k = T.axis.remap("SS", [ty, tx])
                                    rows[i, k] = T.if_then_else(
                                        row + i < starts[e + 1], x[row + i, k], T.float32(0)
                                    )
                                with T.sblock("start"):
                                    i, j = T.axis.remap("SS", [ty, tx])
                                    total[i, j] = T.float32(0)
                                for r in range(8):
                                    with T.sblock("add"):
                                        i, j, k = T.axis.remap("SSR", [ty, tx, r])
                                        if column + j < 20:
                                            total[i, j] += rows[i, k] * w[e, column + j, k]
                                with T.sblock("store"):
                                    i, j = T.axis.remap("SS", [ty, tx])
                                    if row + i < starts[e + 1] and column + j < 20:
                                        out[row + i, column + j] = total[i, j]
                tile[0] += 2


@pytest.mark.parametrize("starts", [[0, 5, 5, 13], [0, 0, 0, 1], [0, 9, 17, 18], [0, 0, 0, 0]])
def test_tiles_of_experts_that_blocks_walk_over(starts: list[int]) -> None:
    x = RNG.standard_normal((starts[-1], 8)).astype("float32")
    w = RNG.standard_normal((3, 20, 8)).astype("float32")
    out = np.full((starts[-1], 20), np.nan, "float32")
    run(grouped, x, w, np.array(starts, "int32"), out)
    expert = np.repeat(np.arange(3), np.diff(starts))
    np.testing.assert_allclose(out, np.einsum("nk,njk->nj", x, w[expert]), rtol=1e-5, atol=1e-5)


@T.prim_func(s_tir=True)
def tree(x: T.Buffer((2, 16), "float32"), y: T.Buffer((2, 16), "float32")) -> None:
    """Sums to the left of each element, in place: loads and stores meet in a branch."""
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            with T.sblock("scan"):
                v, k = T.axis.remap("SS", [b, t])
                T.reads(x[v, 0:16])
                T.writes(y[v, 0:16])
                s = T.sblock_alloc_buffer((16,), "float32", scope="shared")
                own = T.sblock_alloc_buffer((1,), "float32", scope="local")
                s[k] = x[v, k]
                for step in range(4):
                    if k >= T.shift_left(1, step):
                        own[0] = s[k - T.shift_left(1, step)]
                        T.tvm_storage_sync("shared")
                        s[k] = s[k] + own[0]
                    else:
                        own[0] = T.float32(0)
                y[v, k] = s[k]


def test_threads_meet_in_a_branch() -> None:
    x = RNG.standard_normal((2, 16)).astype("float32")
    y = np.zeros_like(x)
    run(tree, x, y)
    np.testing.assert_allclose(y, x.cumsum(1), rtol=1e-5, atol=1e-5)


@T.prim_func(s_tir=True)
def scan(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")) -> None:
    """A warp loads what all its threads need before one of them stores."""
    for t in T.thread_binding(16, thread="threadIdx.x"):
        with T.sblock("scan"):
            v = T.axis.spatial(16, t)
            T.reads(x[0:16])
            T.writes(y[0:16])
            s = T.sblock_alloc_buffer((16,), "float32", scope="shared")
            s[v] = x[v]
            for step in T.unroll(4):
                if v >= T.shift_left(1, step):
                    s[v] = s[v] + s[v - T.shift_left(1, step)]
            y[v] = s[v]


def test_a_warp_loads_before_it_stores() -> None:
    x = RNG.standard_normal(16).astype("float32")
    y = np.zeros_like(x)
    run(scan, x, y)
    np.testing.assert_allclose(y, x.cumsum(), rtol=1e-5, atol=1e-5)


@T.prim_func(s_tir=True)
def rounds(counts: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")) -> None:
    """Threads read their neighbours' values in loops that they leave one after another."""
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("rounds"):
            v = T.axis.spatial(8, t)
            T.reads(counts[0:8])
            T.writes(y[0:8])
            s = T.sblock_alloc_buffer((8,), "int32", scope="shared")
            done = T.sblock_alloc_buffer((1,), "int32", scope="local")
            own = T.sblock_alloc_buffer((1,), "int32", scope="local")
            s[v] = v
            done[0] = 0
            while done[0] < counts[v]:
                own[0] = s[(v + 1) % 8]
                T.tvm_storage_sync("shared")
                s[v] = own[0] + 1
                T.tvm_storage_sync("shared")
                done[0] = done[0] + 1
            for k in range(counts[v]):
                own[0] = s[(v + k) % 8]
                T.tvm_storage_sync("shared")
                s[v] = own[0] * 2
            y[v] = s[v]


def test_threads_meet_in_loops_that_some_leave_earlier() -> None:
    counts = np.array([3, 0, 5, 1, 8, 2, 2, 7], "int32")
    y = np.zeros(8, "int32")
    run(rounds, counts, y)
    expected = np.arange(8)
    for k in range(8):
        expected = np.where(counts > k, np.roll(expected, -1) + 1, expected)
    for k in range(8):
        expected = np.where(counts > k, np.roll(expected, -k) * 2, expected)
    np.testing.assert_array_equal(y, expected)


@T.prim_func(s_tir=True)
def largest(x: T.Buffer((6, 32), "float32"), y: T.Buffer((6,), "float32")) -> None:
    """A reduction over threadIdx.x, for each threadIdx.y."""
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for ty in T.thread_binding(3, thread="threadIdx.y"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("max"):
                    i = T.axis.spatial(6, b * 3 + ty)
                    k = T.axis.reduce(32, tx)
                    with T.init():
                        y[i] = T.float32(-100)
                    y[i] = T.max(y[i], x[i, k])


def test_values_of_threads_are_reduced() -> None:
    x = RNG.standard_normal((6, 32)).astype("float32")
    y = np.zeros(6, "float32")
    run(largest, x, y)
    np.testing.assert_array_equal(y, x.max(1))


@T.prim_func
def launched(x: T.Buffer((2, 8), "float32"), y: T.Buffer((2, 8), "float32")) -> None:
    b = T.launch_thread("blockIdx.x", 2)
    s = T.alloc_buffer((8,), "float32", scope="shared")
    t = T.launch_thread("threadIdx.x", 8)
    s[t] = x[b, t]
    y[b, t] = s[7 - t] + x[b, t]


def test_kernels_that_are_lowered_become_loops() -> None:
    x = RNG.standard_normal((2, 8)).astype("float32")
    y = np.zeros_like(x)
    run(launched, x, y)
    np.testing.assert_array_equal(y, x[:, ::-1] + x)


@T.prim_func(s_tir=True)
def shuffled(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")) -> None:
    for t in T.thread_binding(32, thread="threadIdx.x"):
        y[t] = T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), x[t], 1, 32, 32)


@T.prim_func(s_tir=True)
def virtual(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    for u in T.thread_binding(2, thread="vthread.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("copy"):
                v = T.axis.spatial(8, u * 4 + t)
                T.reads(x[0:8])
                T.writes(y[0:8])
                s = T.sblock_alloc_buffer((8,), "float32", scope="shared")
                s[v] = x[v]
                y[v] = s[v]


@T.prim_func(s_tir=True)
def unscoped(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("reversed"):
            v = T.axis.spatial(8, t)
            T.reads(x[0:8])
            T.writes(y[0:8])
            s = T.sblock_alloc_buffer((8,), "float32", scope="shared")
            own = T.sblock_alloc_buffer((1,), "float32")
            own[0] = x[v]
            s[v] = own[0]
            T.tvm_storage_sync("shared")
            y[v] = s[7 - v] + own[0]


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (unscoped, "share memory (shared) and allocate own in memory of scope global"),
        (shuffled, "wait for each other (tirx.tvm_warp_shuffle_down) and call "
                   "tvm_warp_shuffle_down"),
        (virtual, "share memory (shared) and have virtual threads"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(func: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        serial_threads(tvm.IRModule({"main": func}))


def test_the_module_is_not_changed() -> None:
    mod = tvm.IRModule({"main": tree})
    before = tvm_ffi.structural_hash(mod["main"])
    serial_threads(mod)
    assert tvm_ffi.structural_hash(mod["main"]) == before
