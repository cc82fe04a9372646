"""The benchmark of growing graphs: what it builds is planned, what it tells is what it measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.layout.growing_nets import KINDS, NETS, lowered
from benchmarks.layout.layout_growth import merged, planned
from benchmarks.layout.layout_growth_page import growth, page


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in NETS for k in KINDS[n]])
def test_every_graph_is_planned_to_optimality(name: str, kind: str) -> None:
    row = planned(lowered(name, 18, kind))
    assert (row["status"], row["gap"]) == ("optimal", 0)
    assert row["ops"] >= 18 and row["seconds"] > 0
    assert row["phases"].keys() >= {"kinds", "solve", "rewrite + proof"}


def test_blocks_of_their_own_width_have_prim_funcs_of_their_own() -> None:
    equal, distinct = (planned(lowered("residual", 30, k)) for k in ("equal", "distinct"))
    assert equal["prim_funcs"] == 5 and distinct["prim_funcs"] > 15


def test_every_rung_of_a_ladder_costs_a_conversion() -> None:
    assert planned(lowered("ladder", 61, "equal"))["conversions"] == 20


def _row(ops: int, seconds: float, **other: Any) -> dict[str, Any]:
    return {"net": "shuffle", "kind": "equal", "ops": ops, "seconds": seconds, **other}


def test_growth_is_the_exponent() -> None:
    assert growth([_row(500, 2.0), _row(5000, 20.0)]) == pytest.approx(1)
    assert growth([_row(500, 2.0), _row(1000, 3.0), _row(5000, 200.0)]) == pytest.approx(2)


def test_rows_that_are_measured_again_are_replaced() -> None:
    rows = merged([_row(500, 1.0), _row(5000, 9.0)], [_row(5000, 8.0), _row(2000, 3.0)])
    assert [(r["ops"], r["seconds"]) for r in rows] == [(500, 1.0), (5000, 8.0), (2000, 3.0)]


def test_the_page_tells_status_and_memory() -> None:
    more = {"prim_funcs": 6, "wall": 9.5, "status": "Time limit reached", "gap": 3.0,
            "conversions": 4, "peak_growth_mib": 12.4, "phases": {"solve": 1.25}}  # fmt: skip
    text = page([_row(500, 1.0, **more), _row(5000, 10.0, **more)])
    assert "| 5,000 | 6 | 10.0 | 9.5 | 2.00 | Time limit reached, gap 3 | 4 | 12 MiB |" in text
    assert "| shuffle | equal | 500 to 5,000 | 1.00 |" in text and "| 1.25 |" in text
