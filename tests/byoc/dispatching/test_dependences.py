"""Sets of bindings that depend on each other, with groups of them as units."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opinfo.byoc.patterns.dependences import Dependences, bits, cycle, joined, together


@st.composite
def _blocks(draw: st.DrawFn) -> tuple[Dependences, list[int]]:
    """A block of a few bindings, each of which needs earlier ones, and disjoint groups of them."""
    count = draw(st.integers(1, 9))
    needs = tuple(draw(st.integers(0, (1 << k) - 1)) for k in range(count))
    group = [draw(st.integers(0, 4)) for _ in range(count)]
    groups = [sum(1 << k for k in range(count) if group[k] == g) for g in range(1, 5)]
    block = Dependences(tuple(range(count)), needs, (0,) * count, (0,) * count, {}, {})
    return block, [members for members in groups if members]


def _units(count: int, groups: list[int]) -> list[int]:
    """The unit of each binding."""
    return [next((g for g in groups if g >> k & 1), 1 << k) for k in range(count)]


def _reached(block: Dependences, units: list[int]) -> list[set[int]]:
    """The units that each binding's unit needs, directly or not, by Warshall's algorithm."""
    places = range(len(units))
    needs = [{units[j] for m in bits(units[k]) for j in bits(block.needs[m])} - {units[k]}
             for k in places]  # fmt: skip
    for via, k in product(places, places):
        if units[via] in needs[k]:
            needs[k] |= needs[via]
    return needs


@given(_blocks())
def test_units_are_above_and_below_each_other(case: tuple[Dependences, list[int]]) -> None:
    block, groups = case
    units = _units(len(block.needs), groups)
    reached = _reached(block, units)
    if any(units[k] in reached[k] for k in range(len(units))):
        assert cycle(block, groups) is not None
        with pytest.raises(ValueError, match="depend on each other cyclically"):
            joined(block, groups)
        return
    assert cycle(block, groups) is None
    result = joined(block, groups)
    for k, unit in enumerate(units):
        assert set(bits(result.above[k])) == {j for above in reached[k] for j in bits(above)}
        below = {j for j in range(len(units)) if unit in reached[j]}
        assert set(bits(result.below[k])) == below
    order = together(block, groups)
    assert sorted(order) == list(range(len(units)))
    for unit in groups:
        places = sorted(order.index(k) for k in bits(unit))
        assert places == list(range(places[0], places[0] + len(places)))
    assert all(order.index(j) < order.index(k) for k in order for u in reached[k] for j in bits(u))


def test_a_large_group_takes_no_longer_than_its_bindings() -> None:
    """Each member once, not once for each other member: a model of 20,000 bindings is one group."""
    count = 20_000
    needs = (0, *(1 << (k - 1) for k in range(1, count)))
    block = Dependences(tuple(range(count)), needs, (0,) * count, (0,) * count, {}, {})
    result = joined(block, [(1 << count) - 1])
    assert set(result.above) == set(result.below) == {0}
