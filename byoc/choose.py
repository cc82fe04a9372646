"""Which matches to take: each op at most once, priority classes first, then cost.

y[m] ∈ {0, 1}      Σ_{m ∋ o} y[m] <= 1 for each op o
maximise, class by class from the highest, Σ_{m in class} |m| y[m]; then minimise Σ cost[m] y[m]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
    program = Program()
    scale = 1.0 + sum(abs(m.cost) + sum(abs(default[o]) for o in m.ops) for m in matches)
    classes = sorted({priority[m.backend] for m in matches})
    size = 1.0 + _largest([m.ops for m in matches])
    rank = {p: size**k for k, p in enumerate(classes)}
    covering: dict[Op, dict[int, float]] = {}
    for m in matches:
        saved = sum(default[o] for o in m.ops)
        gain = rank[priority[m.backend]] * len(m.ops)
        x = program.variable((m.cost - saved) / scale - gain)
        for op in m.ops:
            covering.setdefault(op, {})[x] = -1.0
    program.rows += [(-1.0, row) for row in covering.values()]
    program.rows += [(1.0, dict.fromkeys(covering.get(op, {}), 1.0)) for op in must]
    solution = solve(program)
    taken = tuple(m for k, m in enumerate(matches) if k in solution.chosen)
    return Chosen(taken, solution)


def _largest(groups: Sequence[tuple[Op, ...]]) -> int:
    """The number of ops in the largest set of groups that hang together."""
    root: dict[Op, Op] = {}

    def find(op: Op) -> Op:
        root.setdefault(op, op)
        while root[op] is not op:
            root[op] = root[root[op]]
            op = root[op]
        return op

    for first, *rest in groups:
        find(first)
        for op in rest:
            root[find(op)] = find(first)
    counts = Counter(find(op) for op in list(root))
    return max(counts.values(), default=0)
