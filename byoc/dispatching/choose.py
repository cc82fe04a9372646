"""Which matches to take: each op at most once, priority classes first, then cost.

y[m] ∈ {0, 1}      Σ_{m ∋ o} y[m] <= 1 for each op o
maximise, class by class from the highest, Σ_{m in class} |m| y[m]; then minimise Σ cost[m] y[m]

Each aim is a program of its own with what the ones before it reached as rows, so that none of them
has to be smaller than the solver's tolerance to leave the other alone. Matches that share no op,
not even through others, do not meet: the rows are of one such group each. Regions of several
results may need each other in a ring although each one is convex; each ring that comes up is a row
more, Σ y[m] < |ring|.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ...layout.graph.relax_graph import Op
from ...layout.search.layout_problem import BinaryProgram
from ...layout.search.solve import NoSolution, Row, Solution, solve
from ..backend.match import Match
from ..matching.force import CannotForce

Ring = Callable[[Sequence[Match]], Sequence[int] | None]
"""Numbers of matches that need each other's results, so that one must go; None: there are none."""


@dataclass(frozen=True)
class Chosen:
    """The matches to take, and the solver's word that there is nothing better."""

    matches: tuple[Match, ...]
    solution: Solution


def choose(
    matches: Sequence[Match], priority: Mapping[str, int], default: Mapping[Op, float],
    must: Collection[Op] = (), ring: Ring = lambda matches: None,
) -> Chosen:  # fmt: skip
    """The best set of matches. ``default``: what an op costs that stays with TVM.

    Where ``priority`` has ``tvm``, a backend of its class or below takes what is cheaper, not all
    that it can: matches of ``tvm`` are what TVM's own code costs for several ops together.
    Each op of ``must`` is taken by some match. Raises `CannotForce` if they cannot all be.
    ``ring`` finds matches that cannot all be taken, each needing another one's result first.
    """
    saved = [m.cost - sum(default[o] for o in m.ops) for m in matches]
    try:
        problem, status = _classes(matches, priority, must, ring, ())
        solution = problem.solve(saved)
    except NoSolution as e:
        raise CannotForce("the operators cannot all go where they must: their regions overlap"
                          ) from e  # fmt: skip
    if status != "optimal":
        solution = replace(solution, status=status)
    return Chosen(tuple(m for x, m in enumerate(matches) if x in solution.chosen), solution)


def rows(
    matches: Sequence[Match], priority: Mapping[str, int], must: Collection[Op] = (),
    ring: Ring = lambda matches: None, idle: Collection[Op] = (),
) -> list[Row]:  # fmt: skip
    """Rows over the numbers of matches that hold for the best sets, whatever the matches cost.

    That a backend takes an op of ``idle`` is nothing gained.
    """
    problem, _ = _classes(matches, priority, must, ring, idle)
    return [*problem.rows, *problem.kept()]


def _classes(
    matches: Sequence[Match], priority: Mapping[str, int], must: Collection[Op], ring: Ring,
    idle: Collection[Op],
) -> tuple[_Problem, str]:  # fmt: skip
    """The problem with what each class of priority reaches, and the solver's word."""
    problem, status = _Problem(matches, must, ring), "optimal"
    floor = priority.get("tvm")
    classes = {priority[m.backend] for m in matches if m.backend != "tvm"}
    for p in sorted((p for p in classes if floor is None or p > floor), reverse=True):
        sizes = [sum(op not in idle for op in m.ops) * float(priority[m.backend] == p)
                 for m in matches]  # fmt: skip
        first = problem.solve([-n for n in sizes])
        status = status if first.status == "optimal" else first.status
        problem.reached.append((sizes, first.chosen))
    return problem, status


class _Problem:
    """The rows of all programs; ``reached``: sizes that later ones keep, and by which matches."""

    def __init__(self, matches: Sequence[Match], must: Collection[Op], ring: Ring) -> None:
        self.matches, self.ring = matches, ring
        covering: dict[Op, dict[int, float]] = {}
        for x, m in enumerate(matches):
            for op in m.ops:
                covering.setdefault(op, {})[x] = -1.0
        self.rows = [(-1.0, row) for row in covering.values()]
        self.rows += [(1.0, dict.fromkeys(covering.get(op, {}), 1.0)) for op in must]
        self.meet = [m.ops for m in matches]
        self.reached: list[tuple[Sequence[float], Collection[int]]] = []

    def solve(self, cost: list[float]) -> Solution:
        """Solved again as long as matches that were chosen need each other."""
        while True:
            found = solve(BinaryProgram(cost, [*self.rows, *self.kept()]))
            chosen = sorted(found.chosen)
            ring = self.ring([self.matches[x] for x in chosen])
            if ring is None:
                return found
            apart = [chosen[k] for k in ring]
            self.rows.append((1.0 - len(apart), dict.fromkeys(apart, -1.0)))
            self.meet.append(tuple(op for x in apart for op in self.matches[x].ops))

    def kept(self) -> list[tuple[float, dict[int, float]]]:
        out = []
        for sizes, chosen in self.reached:
            for group in _groups(self.meet):
                row = {x: sizes[x] for x in group if x < len(sizes) and sizes[x]}
                out.append((sum(row[x] for x in row if x in chosen), row))
        return out


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
