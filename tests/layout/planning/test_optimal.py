"""The plan costs as little as the cheapest of all plans of a small graph."""

from __future__ import annotations

import pytest

from opinfo.layout.search import layout_problem as problem

from ..brute import objectives
from ..random_graphs import case

SEEDS = range(30)


def test_no_plan_is_cheaper() -> None:
    found = {s: objectives(case(s, 2, 6, special=False)) for s in SEEDS}
    tried = {s: both for s, both in found.items() if both is not None}
    assert len(tried) > 25
    assert sum(least > 0 for _, least in tried.values()) > 5
    assert {s: plan for s, (plan, _) in tried.items()} == pytest.approx(
        {s: least for s, (_, least) in tried.items()}
    )


def test_another_price_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "CHANGE", 3.0)
    found = [objectives(case(s, 2, 6, special=False)) for s in SEEDS]
    assert any(both is not None and both[0] > both[1] for both in found)
