"""Which matches to take: each op at most once, priority classes first, then cost.

y[m] ∈ {0, 1}      Σ_{m ∋ o} y[m] <= 1 for each op o
maximise, class by class from the highest, Σ_{m in class} |m| y[m]; then minimise Σ cost[m] y[m]

Each aim is a program of its own with what the ones before it reached as rows, so that none of them
has to be smaller than the solver's tolerance to leave the other alone. Matches that share no op,
not even through others, do not meet: the rows are of one such group each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..layout.graph import Op
from ..layout.problem import Program
from ..layout.solve import Solution, solve


@dataclass(frozen=True)
class Match:
    """Ops that a backend could take as one region. ``cost`` in microseconds."""

    backend: str
    pattern: str
    ops: tuple[Op, ...]
    cost: float


@dataclass(frozen=True)
class Chosen:
    """The matches to take, and the solver's word that there is nothing better."""

    matches: tuple[Match, ...]
    solution: Solution


def choose(
    matches: Sequence[Match], priority: Mapping[str, int], default: Mapping[Op, float],
    must: Collection[Op] = (),
) -> Chosen:  # fmt: skip
    """The best set of matches. ``default``: what an op costs that stays with TVM.

    Each op of ``must`` is taken by some match. Raises :class:`.NoSolution` if they cannot all be.
    """
    groups = _groups([m.ops for m in matches])
    covering: dict[Op, dict[int, float]] = {}
    for x, m in enumerate(matches):
        for op in m.ops:
            covering.setdefault(op, {})[x] = -1.0
    rows = [(-1.0, row) for row in covering.values()]
    rows += [(1.0, dict.fromkeys(covering.get(op, {}), 1.0)) for op in must]
    status = "optimal"
    for p in sorted({priority[m.backend] for m in matches}, reverse=True):
        sizes = [len(m.ops) * float(priority[m.backend] == p) for m in matches]
        first = solve(Program([-n for n in sizes], rows))
        found, status = first.chosen, status if first.status == "optimal" else first.status
        for group in groups:
            row = {x: sizes[x] for x in group if sizes[x]}
            rows.append((sum(row[x] for x in row if x in found), row))
    saved = [m.cost - sum(default[o] for o in m.ops) for m in matches]
    solution = solve(Program(saved, rows))
    if status != "optimal":
        solution = replace(solution, status=status)
    return Chosen(tuple(m for x, m in enumerate(matches) if x in solution.chosen), solution)


def _groups(chains: Sequence[tuple[Op, ...]]) -> list[list[int]]:
    """The chains that share ops with each other, or with others of their group, by number."""
    root: dict[Op, Op] = {}

    def find(op: Op) -> Op:
        root.setdefault(op, op)
        while root[op] is not op:
            root[op] = root[root[op]]
            op = root[op]
        return op

    for first, *rest in chains:
        for op in rest:
            root[find(op)] = find(first)
    groups: dict[Op, list[int]] = {}
    for k, (first, *_) in enumerate(chains):
        groups.setdefault(find(first), []).append(k)
    return list(groups.values())
