"""Operators in chains over packed buffers: what is asked for them, and what that may cost."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from tvm import te, topi

from opinfo.analysis import Chain, LayoutNormalised, Refusal, op_infos
from opinfo.analysis.terms.term import work_budget

segment: Any = import_module("opinfo.analysis.chain.segment")


def packed_softmax() -> Any:
    """relu, then softmax over the channels of a buffer in NCW4c, each stage of it a block."""
    x = te.placeholder((2, 3, 5, 4), name="x")
    r = topi.nn.relu(x)
    outer, inner = te.reduce_axis((0, 3)), te.reduce_axis((0, 4))
    most = te.compute((2, 5), lambda n, w: te.max(r[n, outer, w, inner], axis=[outer, inner]))
    e = te.compute(x.shape, lambda n, co, w, ci: te.exp(r[n, co, w, ci] - most[n, w]))
    outer, inner = te.reduce_axis((0, 3)), te.reduce_axis((0, 4))
    total = te.compute((2, 5), lambda n, w: te.sum(e[n, outer, w, inner], axis=[outer, inner]))
    out = te.compute(x.shape, lambda n, co, w, ci: e[n, co, w, ci] / total[n, w])
    return te.create_prim_func([x, out])


def test_one_operator_over_packed_channels_is_preferred_to_its_stages() -> None:
    chain = op_infos(packed_softmax())
    assert isinstance(chain, Chain)
    relu, softmax = (s.info for s in chain.steps)
    assert not isinstance(relu, LayoutNormalised) and relu.name == "relax.nn.relu"
    assert isinstance(softmax, LayoutNormalised)
    assert softmax.logical.name == "relax.nn.softmax" and softmax.logical.attrs["axis"] == 1


def test_a_chain_that_is_understood_costs_a_share_of_the_budget_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer operators over logical buffers are a bonus: the chain is answered without them."""
    x = te.placeholder((4, 4), name="x")
    func = te.create_prim_func([x, topi.sqrt(topi.tanh(topi.exp(x)))])
    costs = []
    for share in (1_000_000, 500):
        monkeypatch.setattr(segment, "LAYOUTS", share)
        with work_budget.budget():
            before = work_budget._work.get().left  # type: ignore[union-attr]
            chain = op_infos(func)
            costs.append(before - work_budget._work.get().left)  # type: ignore[union-attr]
        assert isinstance(chain, Chain)
        assert chain.names == ("relax.exp", "relax.tanh", "relax.sqrt")
    assert costs[1] < costs[0]


def test_the_clock_is_looked_at_in_the_share_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_budget, "SECONDS", -1.0)
    found = op_infos(packed_softmax())
    assert isinstance(found, Refusal) and "s of CPU time" in found.reason
