"""Elimination of variables gives the cheapest solution, as branch and bound does, or says no."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from opinfo.layout.search import solve as solving
from opinfo.layout.search.eliminate import Part, eliminated
from opinfo.layout.search.layout_problem import BinaryProgram
from opinfo.layout.search.solve import solve

Rows = list[tuple[float, dict[int, float]]]


def _part(costs: list[float], rows: Rows) -> Part:
    return tuple(costs), tuple((low, tuple(row.items())) for low, row in rows)


def _one_of(columns: range) -> Rows:
    return [(s, dict.fromkeys(columns, s)) for s in (1.0, -1.0)]


def _holds(rows: Rows, chosen: frozenset[int]) -> bool:
    return all(sum(k for x, k in row.items() if x in chosen) >= low for low, row in rows)


def _ways(rng: np.random.Generator, ops: int, width: int) -> tuple[list[float], Rows]:
    """Ops of three ways in a band: some pairs of ways near to each other cost a conversion."""
    costs = [float(c) for c in rng.integers(0, 4, 3 * ops)]
    rows: Rows = [r for k in range(ops) for r in _one_of(range(3 * k, 3 * k + 3))]
    for a, b in combinations(range(ops), 2):
        if b - a >= width:
            continue
        one, two = 3 * a + int(rng.integers(3)), 3 * b + int(rng.integers(3))
        costs.append(float(rng.integers(1, 6)))
        rows.append((-1.0, {one: -1.0, two: -1.0, len(costs) - 1: 1.0}))
    return costs, rows


@pytest.mark.parametrize("seed", range(12))
def test_against_all_assignments(seed: int) -> None:
    costs, rows = _ways(np.random.default_rng(seed), 3, 3)
    every = (frozenset(k for k, on in enumerate(x) if on)
             for x in product((0, 1), repeat=len(costs)))  # fmt: skip
    least = min(sum(costs[k] for k in x) for x in every if _holds(rows, x))
    found = eliminated(_part(costs, rows))
    assert found is not None and _holds(rows, found)
    assert sum(costs[k] for k in found) == least


@pytest.mark.parametrize("seed", range(12))
def test_against_branch_and_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    costs, rows = _ways(np.random.default_rng(seed), 20, 4)
    found = eliminated(_part(costs, rows))
    monkeypatch.setattr(solving, "eliminated", lambda part: None)
    other = solve(BinaryProgram(costs, rows))
    assert other.status == "optimal" and found is not None and _holds(rows, found)
    assert sum(costs[k] for k in found) == pytest.approx(other.objective)


def _triangles(count: int) -> tuple[list[float], Rows]:
    """Of each triangle two corners; the next one begins where the last one ends."""
    rows: Rows = [(1.0, {2 * k + a: 1.0, 2 * k + b: 1.0})
                  for k in range(count) for a, b in combinations(range(3), 2)]  # fmt: skip
    return [1.0 + 0.01 * (k % 7) for k in range(2 * count + 1)], rows


def test_parts_that_meet_in_one_value_are_solved_however_many_they_are() -> None:
    costs, rows = _triangles(2000)
    found = solve(BinaryProgram(costs, rows))
    assert found.status == "optimal" and found.bound == found.objective and found.parts == 1
    assert _holds(rows, found.chosen)


def test_elimination_gives_up_when_too_many_variables_meet() -> None:
    rows: Rows = [(1.0, {a: 1.0, b: 1.0}) for a, b in combinations(range(24), 2)]
    assert eliminated(_part([1.0] * 24, rows)) is None
    assert solve(BinaryProgram([1.0] * 24, rows)).objective == 23


def test_infeasible_constraints_give_none() -> None:
    rows: Rows = [*_one_of(range(2)), (1.0, {0: 1.0}), (1.0, {1: 1.0})]
    assert eliminated(_part([1.0, 1.0], rows)) is None
