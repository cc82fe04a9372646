"""All maximal subgraphs are found, none is cut wrongly, and choices have no cycles."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from opinfo.byoc.backend.match import Match
from opinfo.byoc.dispatching.choice.choose import choose
from opinfo.byoc.patterns.dependences import Dependences, bits, cycle, together
from opinfo.byoc.patterns.subgraphs import maximal
from opinfo.layout.graph.relax_graph import Op


def flow(needs: Sequence[int]) -> Dependences:
    """A block of bindings without a program."""
    above, below = [0] * len(needs), [0] * len(needs)
    for k, read_ in enumerate(needs):
        for j in bits(read_):
            above[k] |= above[j] | 1 << j
            for up in bits(above[j] | 1 << j):
                below[up] |= 1 << k
    ops = {k: Op(str(k), None, None, (), ()) for k in range(len(needs))}
    places = {op: k for k, op in ops.items()}
    return Dependences((None,) * len(needs), tuple(needs), tuple(above), tuple(below), ops, places)


def dag(rng: random.Random, count: int) -> Dependences:
    return flow([sum(1 << j for j in range(k) if rng.random() < 2.5 / count) for k in range(count)])


def paths(f: Dependences, a: int) -> set[int]:
    """What can be reached, step by step."""
    out: set[int] = set()
    todo = [a]
    while todo:
        here = todo.pop()
        new = [k for k in range(len(f.needs)) if f.needs[k] >> here & 1 and k not in out]
        out |= set(new)
        todo += new
    return out


def convex(f: Dependences, s: int) -> bool:
    inside = set(bits(s))
    leaves = {x for a in inside for x in paths(f, a)} - inside
    return not any(paths(f, x) & inside for x in leaves)


def connected(f: Dependences, s: int) -> bool:
    inside = list(bits(s))
    reached = {inside[0]}
    for _ in inside:
        reached |= {
            k for k in inside for j in reached if f.needs[k] >> j & 1 or f.needs[j] >> k & 1
        }
    return len(reached) == len(inside)


@pytest.mark.parametrize("seed", range(60))
def test_all_maximal_regions_are_those_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    f = dag(rng, rng.randint(4, 9))
    taken = sum(1 << k for k in range(len(f.needs)) if rng.random() < 0.7)
    regions = [s for s in range(1, 1 << len(f.needs))
               if s & ~taken == 0 and connected(f, s) and convex(f, s)]  # fmt: skip
    largest = [s for s in regions if not any(s & ~t == 0 for t in regions if t != s)]
    assert sorted(maximal(f, taken)) == sorted(largest)


def test_where_there_are_too_many_each_op_is_still_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.patterns.subgraphs.MOST", 1)
    for seed in range(40):
        f = dag(random.Random(seed), 14)
        taken = sum(1 << k for k in range(14) if k % 3)
        found = maximal(f, taken)
        assert all(connected(f, s) and convex(f, s) for s in found)
        assert sorted({k for s in found for k in bits(s)}) == list(bits(taken))


def test_a_long_net_with_a_gap_in_each_block_is_quick() -> None:
    needs = [0]  # x -> gap, x -> add: the block's result needs both
    for k in range(0, 600, 2):
        needs += [1 << k, 1 << k | 1 << k + 1]
    found = maximal(flow(needs), sum(1 << k for k in range(0, 601, 2)))
    assert found == [1 << k for k in range(0, 601, 2)]


def quotient_is_a_dag(f: Dependences, groups: Sequence[int]) -> bool:
    of = {k: -1 - g for g, s in enumerate(groups) for k in bits(s)}
    edges = {(of.get(j, j), of.get(k, k)) for k in range(len(f.needs)) for j in bits(f.needs[k])}
    left = {of.get(k, k) for k in range(len(f.needs))}
    edges = {(a, b) for a, b in edges if a != b}
    while free := {n for n in left if not any(b == n and a in left for a, b in edges)}:
        left -= free
    return not left


@pytest.mark.parametrize("seed", range(60))
def test_a_ring_is_found_where_there_is_one(seed: int) -> None:
    rng = random.Random(seed)
    f = dag(rng, 8)
    order = rng.sample(range(8), 8)
    cuts = sorted(rng.sample(range(1, 8), 3))
    groups = [sum(1 << k for k in order[a:b]) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    found = cycle(f, groups)
    assert (found is None) == quotient_is_a_dag(f, groups)
    if found is not None:
        assert not quotient_is_a_dag(f, [groups[g] for g in found])
        with pytest.raises(ValueError, match="depend on each other cyclically"):
            together(f, groups)
        return
    ordered = together(f, groups)
    assert sorted(ordered) == list(range(8))
    place = {k: n for n, k in enumerate(ordered)}
    assert all(place[j] < place[k] for k in range(8) for j in bits(f.needs[k]))
    for s in groups:
        at = sorted(place[k] for k in bits(s))
        assert at == list(range(at[0], at[0] + len(at)))


def subsets(matches: Sequence[Match]) -> Iterator[list[Match]]:
    for chosen in range(1 << len(matches)):
        out = [m for k, m in enumerate(matches) if chosen >> k & 1]
        covered = [op for m in out for op in m.ops]
        if len(covered) == len(set(covered)):
            yield out


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_without_rings_is_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    f = dag(rng, 8)
    ops = list(f.ops.values())
    matches = [
        Match(rng.choice("ab"), "p", tuple(rng.sample(ops, rng.randint(1, 3))), rng.randint(0, 20))
        for _ in range(7)
    ]
    priority = {"a": 3, "b": rng.choice([2, 3])}
    default = {op: float(rng.randint(0, 20)) for op in f.ops.values()}

    def sets(found: Sequence[Match]) -> list[int]:
        return [f.set(m.ops) for m in found]

    def value(found: Sequence[Match]) -> tuple[float, ...]:
        classes = sorted(set(priority.values()), reverse=True)
        counts = [-sum(len(m.ops) for m in found if priority[m.backend] == p) for p in classes]
        return (*counts, sum(m.cost - sum(default[o] for o in m.ops) for m in found))

    best = min(value(s) for s in subsets(matches) if quotient_is_a_dag(f, sets(s)))
    found = choose(matches, priority, default, ring=lambda ms: cycle(f, sets(ms))).matches
    assert quotient_is_a_dag(f, sets(found))
    assert value(found) == pytest.approx(best)
