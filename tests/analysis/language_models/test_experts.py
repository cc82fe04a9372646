"""Routing of tokens to experts: kernels, and the operators that say what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import from_source

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.composites import expert_indptr, expert_mask, expert_order

from ..recognise.test_composites import module, run

#: Threads that store where cumulative sums say; the number of sums is a size of its own.
SORT = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle, r: T.handle, o: T.handle):
    n, b = T.int32(), T.int32()
    sums = T.match_buffer(p, (n,), "int32")
    idx = T.match_buffer(q, (b, 2), "int32")
    places = T.match_buffer(r, (b * 2,), "int32")
    tokens = T.match_buffer(o, (b * 2,), "int32")
    for bx in T.thread_binding((b * 2 + 63) // 64, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            if bx * 64 + tx < b * 2:
                places[sums[idx[{row} // 2, {row} % 2] * b + {row} // 2] - 1] = {row}
                tokens[sums[idx[{row} // 2, {row} % 2] * b + {row} // 2] - 1] = {token}
"""
#: The mask of tokens whose number has two names.
MASK = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle):
    a, b = T.int64(), T.int64()
    idx = T.match_buffer(p, (a, 2), "int32")
    out = T.match_buffer(q, (b, 4), "int32")
    for t, e in T.grid(b, 4):
        out[t, e] = T.Select({chosen}, 1, 0)
"""


def sort(row: str = "(bx * 64 + tx)", token: str = "(bx * 64 + tx) // 2") -> Any:
    return from_source(SORT.format(row=row, token=token))


def test_threads_sort_rows_by_expert() -> None:
    info = op_info(sort())
    assert isinstance(info, OpInfo) and info.name == "relax.nn.expert_order", info
    assert info.inplace_indices == (2, 3)
    assert any("no two threads" in a for a in info.certificate.assumptions), info.certificate


@pytest.mark.parametrize("change", [
    {"token": "(bx * 64 + tx) % 2"},
    {"token": "(bx * 64 + tx)"},
    {"row": "(bx * 64 + tx - tx % 2)"},
])  # fmt: skip
def test_other_rows_are_refused(change: dict[str, str]) -> None:
    assert not op_info(sort(**change))


def test_two_names_for_the_tokens_are_one_size() -> None:
    func = from_source(MASK.format(chosen="idx[t, 0] == e or idx[t, 1] == e"))
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.nn.expert_mask", info
    assert info.certificate.sizes and not analyse(func).over_tensors().info
    assert not op_info(from_source(MASK.format(chosen="idx[t, 0] == e and idx[t, 1] == e")))


def test_the_operators_route_tokens() -> None:
    random = np.random.default_rng(1)
    chosen = np.argsort(random.random((7, 4)), axis=1)[:, :2].astype("int32")
    mask = _run(expert_mask, chosen, experts=4)
    expected = (chosen[:, :, None] == np.arange(4)).any(1).astype("int32")
    np.testing.assert_array_equal(mask, expected)
    sums = np.cumsum(mask.T.reshape(-1), dtype="int32")
    starts = _run(expert_indptr, sums, experts=4)
    np.testing.assert_array_equal(starts, [0, *np.cumsum(mask.sum(0))])
    nothing = np.full(14, -1, "int32")
    places, tokens = _run(expert_order, nothing, nothing, sums, chosen)
    rows = sorted(range(14), key=lambda r: (chosen[r // 2, r % 2], r // 2))
    np.testing.assert_array_equal(places, rows)
    np.testing.assert_array_equal(tokens, np.array(rows) // 2)


def _run(make: Any, *arrays: np.ndarray, **attrs: Any) -> Any:
    mod = module(make, *((a.shape, a.dtype.name) for a in arrays), **attrs)
    return run(tvm.relax.transform.LegalizeOps()(mod), *arrays)


def test_other_operands_are_refused() -> None:
    for make, shapes in ((expert_mask, [(3,)]), (expert_indptr, [(2, 3)])):
        with pytest.raises(ValueError, match="expected integers"):
            module(make, *((s, "int32") for s in shapes), experts=2)
