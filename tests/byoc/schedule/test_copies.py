"""Copies of operands: strided, padded, and block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.byoc.schedule import Scheduled, schedule
from opinfo.byoc.schedule.loops.deinterleave import _places, _starts

from .fused import TARGET, built, fused_one, inputs, run, scheduled, target_of
from .test_windows import conv, max_pool

op = relax.op
F = torch.nn.functional
WIDE = "skylake-avx512"


@pytest.mark.part
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("lanes", [4, 16])
def test_shuffled_vectors_have_the_elements_and_nothing_beyond(stride: int, lanes: int) -> None:
    elements = [start + lane for start in _starts(stride, lanes) for lane in range(lanes)]
    wanted = [stride * lane for lane in range(lanes)]
    assert [elements[p] for p in _places(stride, lanes)] == wanted
    assert max(elements) == wanted[-1] and min(elements) == 0


@pytest.mark.parametrize(
    ("stride", "dtype"), [(2, "float32"), (3, "float16"), (4, "int64"), (2, "bfloat16")]
)
def test_strided_slices(stride: int, dtype: str) -> None:
    func = fused_one([["n", 67]], lambda emit, x: op.strided_slice(x, [1], [0], [67], [stride]),
                     [dtype])  # fmt: skip
    vectors = scheduled(func, target_of(WIDE)).func.script()
    assert ("Shuffle" in vectors) == (dtype != "bfloat16")
    if dtype == "bfloat16":
        return
    arrays = inputs(func, {"n": 3})
    (result,) = run(built(scheduled(func).func), arrays)
    np.testing.assert_array_equal(result, arrays[0][:, ::stride])


#: Shapes, an expression, its oracle, and the copy of a block.
BLOCKS: dict[str, tuple[Any, Any, Any, str]] = {
    "depthwise": ([[1, 24, 30, 30], [24, 1, 3, 3], [1, 24, 1, 1]], *conv(1, 1, 24),
                  "(1, 6, 32, 32)"),
    "depthwise, strided": ([[1, 24, 33, 34], [24, 1, 3, 3], [1, 24, 1, 1]], *conv(2, 1, 24),
                           "(1, 4, 35, 2, 18)"),
    "depthwise, symbolic": ([[1, 8, "h", "w"], [8, 1, 3, 3], [1, 8, 1, 1]], *conv(1, 1, 8),
                            "(1, 4, h + 2, w + 2)"),
    "batch": ([["n", 4, 40, 40], [4, 4, 3, 3], [1, 4, 1, 1]], *conv(1, 1), "(1, 4, 42, 42)"),
    "max pool": ([[2, 12, 40, 41]], max_pool, lambda x: F.max_pool2d(x, 3, 2, 1),
                 "(1, 12, 42, 2, 22)"),
}  # fmt: skip


def copies(func: Any) -> list[str]:
    """The shapes of the copies that are in memory."""
    text = func.script().replace("T.int64", "").replace("(1), ", "1, ")
    lines = [line for line in text.splitlines() if "alloc_buffer" in line]
    plain = [line.split("alloc_buffer(")[1].replace("((", "(") for line in lines]
    return ["".join(c for c in p if c not in "()").rstrip() for p in plain if "acc" not in p]


@pytest.mark.parametrize("name", BLOCKS)
def test_copies_are_made_block_by_block(name: str) -> None:
    shapes, expr, oracle, block = BLOCKS[name]
    func = fused_one(shapes, expr)
    wanted = "".join(c for c in block if c not in "()")
    assert wanted in copies(scheduled(func, target_of(WIDE)).func)
    sizes = {"n": 3, "h": 21, "w": 9}
    arrays = inputs(func, sizes)
    expected = oracle(*map(torch.from_numpy, arrays[:-1])).numpy()
    arrays[-1][...] = np.nan
    (result,) = run(built(scheduled(func).func), arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_small_copies_and_those_for_several_cores_are_whole() -> None:
    small = fused_one([[1, 6, 9, 9], [6, 1, 3, 3], [1, 6, 1, 1]], conv(1, 1, 6)[0])
    assert "1, 6, 11, 11" in copies(scheduled(small, target_of(WIDE)).func)
    large = fused_one([[1, 24, 30, 30], [24, 1, 3, 3], [1, 24, 1, 1]], conv(1, 1, 24)[0])
    cores = tvm.target.Target({"kind": "llvm", "mcpu": WIDE, "num-cores": 2})
    assert "1, 24, 32, 32" in copies(scheduled(large, cores).func)


@T.prim_func(private=True, s_tir=True)
def shared(
    x: T.Buffer((64, 100), "float32"),
    total: T.Buffer((64, 100), "float32"),
    twice: T.Buffer((64, 102), "float32"),
) -> None:
    """Windows over a padded copy that another result reads, too."""
    T.func_attr({"tirx.noalias": True})
    p = T.sblock_alloc_buffer((64, 102))
    for i, j in T.grid(64, 102):
        with T.sblock("pad"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            p[v_i, v_j] = T.if_then_else(1 <= v_j and v_j < 101, x[v_i, v_j - 1], T.float32(0))
    for i, j, k in T.grid(64, 100, 3):
        with T.sblock("total"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[v_i, v_j] = T.float32(0)
            total[v_i, v_j] = total[v_i, v_j] + p[v_i, v_j + v_k]
    for i, j in T.grid(64, 102):
        with T.sblock("twice"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            twice[v_i, v_j] = p[v_i, v_j] * T.float32(2)


def test_a_copy_that_something_else_reads_is_whole() -> None:
    result = schedule(shared, TARGET)
    assert isinstance(result, Scheduled)
    x = np.random.default_rng(0).standard_normal((64, 100)).astype("float32")
    total, twice = run(built(result.func), [x, np.full_like(x, np.nan),
                                            np.full((64, 102), np.nan, "float32")], 2)  # fmt: skip
    padded = np.pad(x, ((0, 0), (1, 1)))
    np.testing.assert_allclose(total, padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:], rtol=1e-5,
                               atol=1e-5)  # fmt: skip
    np.testing.assert_array_equal(twice, padded * 2)


@T.prim_func(private=True, s_tir=True)
def strip(x: T.Buffer((61, 200), "float32"), total: T.Buffer((64, 198), "float32")) -> None:
    """Windows over rows, the first and the last two of which are padding."""
    T.func_attr({"tirx.noalias": True})
    p = T.sblock_alloc_buffer((64, 200))
    for i, j in T.grid(64, 200):
        with T.sblock("pad"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            p[v_i, v_j] = T.if_then_else(1 <= v_i and v_i < 62, x[v_i - 1, v_j], T.float32(7))
    for i, j, k in T.grid(64, 198, 3):
        with T.sblock("total"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[v_i, v_j] = T.float32(0)
            total[v_i, v_j] = total[v_i, v_j] + p[v_i, v_j + v_k]


def test_slices_in_the_border_are_padded_in_their_block() -> None:
    """A block may lie in the border, so its copy keeps the condition on the slices."""
    found = scheduled(strip)
    assert "16, 200" in copies(found.func)
    x = np.random.default_rng(0).standard_normal((61, 200)).astype("float32")
    (total,) = run(built(found.func), [x, np.full((64, 198), np.nan, "float32")])
    padded = np.pad(x, ((1, 2), (0, 0)), constant_values=7)
    np.testing.assert_allclose(total, padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:], rtol=1e-5,
                               atol=1e-5)  # fmt: skip
