"""Steps of top-p sampling: kernels with a stride over blocks, and loops whose last store wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import from_source

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.composites import sample_from_sorted, top_p_renormalize, top_p_top_k_sum
from opinfo.analysis.recognise.sampling_and_routing import top_p
from opinfo.analysis.terms.condition_terms import ge0
from opinfo.analysis.terms.integer import floordiv
from opinfo.analysis.terms.term import TRUE, as_int, integer, mul, variable

from ..recognise.test_composites import module, run

#: All blocks of a row share it: each takes every n-th piece of 64 elements.
STRIDED = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle, r: T.handle, o: T.handle):
    b, n = T.int32(), T.int32()
    prob = T.match_buffer(p, (b, n), "float32")
    pivot = T.match_buffer(q, (b,), "float32")
    total = T.match_buffer(r, (b,), "float32")
    out = T.match_buffer(o, (b, n), "float32")
    for by in T.thread_binding(b, thread="blockIdx.y"):
        for bx in T.thread_binding((b + 31) // b, thread="blockIdx.x"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                for i in range((n + (b + 31) // b * 64 - 1) // ((b + 31) // b * 64)):
                    if {place} < n:
                        out[by, {place}] = T.if_then_else(prob[by, {place}] >= pivot[by],
                            prob[by, {place}] / total[by], T.float32(0))
"""
PLACE = "i * ((b + 31) // b) * 64 + bx * 64 + tx"


def test_blocks_that_share_a_row_are_recognised() -> None:
    info = op_info(from_source(STRIDED.format(place=PLACE)))
    assert isinstance(info, OpInfo) and info.name == "relax.nn.top_p_renormalize", info


@pytest.mark.parametrize("place", [
    "i * ((b + 31) // b) * 64 + bx * 32 + tx",  # two threads store to an element
    "i * ((b + 30) // b) * 64 + bx * 64 + tx",  # pieces overlap
    "i * ((b + 63) // b) * 64 + bx * 64 + tx",  # pieces are left out
    "i * 64 + bx * 64 + tx",
])  # fmt: skip
def test_other_strides_are_refused(place: str) -> None:
    assert not op_info(from_source(STRIDED.format(place=place)))


@pytest.mark.parametrize("script, name, inplace", [
    (top_p._SUM.format(**top_p._STOP), "relax.nn.top_p_top_k_sum", 3),
    (top_p._SAMPLE.format(**top_p._HIT), "relax.nn.sample_from_sorted", 5),
])  # fmt: skip
def test_the_last_store_of_a_loop_wins(script: str, name: str, inplace: int) -> None:
    info = op_info(from_source(script))
    assert isinstance(info, OpInfo) and info.name == name, info
    assert info.inplace_indices == (inplace,)


@pytest.fixture
def sorted_rows() -> Any:
    random = np.random.default_rng(5)
    probabilities = -np.sort(-random.dirichlet(np.ones(9), 4).astype("float32"))
    return random, np.cumsum(probabilities, axis=1, dtype="float32"), probabilities


def test_operators_compute_what_the_loops_do(sorted_rows: Any) -> None:
    random, sums, _ = sorted_rows
    old = np.full((4, 1), -1, "float32")
    limit, most = random.random((4, 1)).astype("float32"), np.array([[1], [3], [9], [20]], "int32")
    kept = _run(top_p_top_k_sum, old, sums, limit, most)
    for row in range(4):
        more = [sums[row, j] < limit[row, 0] and j + 1 < most[row, 0] for j in range(9)]
        count = more.index(False) if False in more else 8
        assert kept[row, 0] == sums[row, count]
    tokens = random.permuted(np.tile(np.arange(9, dtype="int32"), (4, 1)), axis=1)
    samples, rows = random.random((7, 1)).astype("float32"), random.integers(0, 4, (7, 1), "int32")
    chosen = _run(
        sample_from_sorted, np.full((7, 1), -1, "int32"), sums, tokens, kept, samples, rows
    )
    for k, row in enumerate(rows[:, 0]):
        place = int(np.argmax(samples[k, 0] < sums[row] / kept[row, 0]))
        assert chosen[k, 0] == tokens[row, place]


def test_a_row_of_nan_keeps_the_old_content(sorted_rows: Any) -> None:
    _, sums, _ = sorted_rows
    tokens, rows = np.tile(np.arange(9, dtype="int32"), (4, 1)), np.zeros((2, 1), "int32")
    old, one, half = np.full((2, 1), 7, "int32"), np.ones((4, 1), "float32"), np.full((2, 1), 0.5)
    chosen = _run(sample_from_sorted, old, sums * np.nan, tokens, one, half.astype("float32"), rows)
    np.testing.assert_array_equal(chosen, old)


def test_what_reaches_the_pivot_is_scaled(sorted_rows: Any) -> None:
    _, _, x = sorted_rows
    pivots, totals = x[:, 4].copy(), np.array([0.5, 0.7, 0.8, 0.9], "float32")
    expected = np.where(x >= pivots[:, None], x / totals[:, None], 0)
    np.testing.assert_array_equal(_run(top_p_renormalize, x, pivots, totals), expected)


def _run(make: Any, *arrays: np.ndarray) -> Any:
    arrays = tuple(np.ascontiguousarray(a, a.dtype.name) for a in arrays)
    mod = module(make, *((a.shape, a.dtype.name) for a in arrays))
    return run(tvm.relax.transform.LegalizeOps()(mod), *arrays)


def test_quotients_of_quotients_are_digits() -> None:
    b, n = (as_int(variable("size", name)) for name in "bn")
    y = as_int(variable("axis", "y", n))
    blocks = floordiv(b + 31, b)
    digit = floordiv(y, integer(64)) - mul(blocks, floordiv(y, mul(blocks, integer(64))))
    assert ge0(digit) is TRUE and ge0(blocks - 1 - digit) is TRUE
    assert ge0(digit - 1) is not TRUE and ge0(blocks - 2 - digit) is not TRUE
