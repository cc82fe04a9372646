"""The best set of matches: each op at most once, priority classes first, then cost.

y[m] ∈ {0, 1}      Σ_{m ∋ o} y[m] <= 1 for each op o
maximise, class by class from the highest, Σ_{m in class} |m| y[m]; then minimise Σ cost[m] y[m]

Each objective is a separate program; the optima of those before it are rows. A weighted sum would
need weights below the solver's tolerance. Such a row covers one group of matches that share ops,
directly or through others. Regions with several results may depend on each other cyclically even
if each one is convex; each such ring in a solution becomes one more row, Σ y[m] < |ring|.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....layout.graph.relax_graph import Op
from ....layout.search.layout_problem import BinaryProgram
from ....layout.search.solve import NoSolution, Row, Solution, solve
from ...backend.match import Match
from ...matching.force import CannotForce

Ring = Callable[[Sequence[Match]], Sequence[int] | None]
"""Returns the numbers of matches that depend on each other cyclically; None if there are none."""


@dataclass(frozen=True)
class ChosenMatches:
    """The chosen matches, and the solution of the last objective.

    ``offers`` are all matches that could be chosen, ``staying`` the cost of each op with TVM.
    """

    matches: tuple[Match, ...]
    solution: Solution
    offers: tuple[Match, ...] = ()
    staying: Mapping[Op, float] = field(default_factory=dict)


def choose(
    matches: Sequence[Match], priority: Mapping[str, int], default: Mapping[Op, float],
    must: Collection[Op] = (), ring: Ring = lambda matches: None,
) -> ChosenMatches:  # fmt: skip
    """The best set of matches.

    Args:
        matches: The candidates. Matches of ``tvm`` have the cost of TVM's code for several ops.
        priority: The class of each backend. If it has ``tvm``, backends in its class or below
            take only matches that are cheaper.
        default: The cost of each op that stays with TVM.
        must: Ops that some match must take.
        ring: Finds matches that depend on each other cyclically.

    Raises:
        CannotForce: The ops of `must` cannot all be taken.
    """
    saved = [m.cost - sum(default[o] for o in m.ops) for m in matches]
    try:
        problem, status = _classes(matches, priority, must, ring, ())
        solution = problem.solve(saved)
    except NoSolution as error:
        raise CannotForce("force cannot be met for all operators: their regions overlap"
                          ) from error  # fmt: skip
    if status != "optimal":
        solution = replace(solution, status=status)
    best = tuple(m for x, m in enumerate(matches) if x in solution.chosen)
    return ChosenMatches(best, solution, tuple(matches), default)


def rows(
    matches: Sequence[Match], priority: Mapping[str, int], must: Collection[Op] = (),
    ring: Ring = lambda matches: None, idle: Collection[Op] = (),
) -> list[Row]:  # fmt: skip
    """Rows over the numbers of matches that the best sets satisfy, whatever the matches cost.

    Ops of ``idle`` do not count towards what a class takes.
    """
    problem, _ = _classes(matches, priority, must, ring, idle)
    return [*problem.rows, *problem.kept()]


def _classes(
    matches: Sequence[Match], priority: Mapping[str, int], must: Collection[Op], ring: Ring,
    idle: Collection[Op],
) -> tuple[_Problem, str]:  # fmt: skip
    """The problem with the optimum of each priority class, and the solver's status."""
    problem, status = _Problem(matches, must, ring), "optimal"
    floor = priority.get("tvm")
    classes = {priority[m.backend] for m in matches if m.backend != "tvm"}
    for level in sorted((c for c in classes if floor is None or c > floor), reverse=True):
        sizes = [sum(op not in idle for op in m.ops) * float(priority[m.backend] == level)
                 for m in matches]  # fmt: skip
        first = problem.solve([-n for n in sizes])
        status = status if first.status == "optimal" else first.status
        problem.reached.append((sizes, first.chosen))
    return problem, status


class _Problem:
    """The rows of all programs; ``reached`` has the sizes of each class and its optimal matches."""

    def __init__(self, matches: Sequence[Match], must: Collection[Op], ring: Ring) -> None:
        self.matches, self.ring = matches, ring
        covering: dict[Op, dict[int, float]] = {}
        for k, match in enumerate(matches):
            for op in match.ops:
                covering.setdefault(op, {})[k] = -1.0
        self.rows = [(-1.0, row) for row in covering.values()]
        self.rows += [(1.0, dict.fromkeys(covering.get(op, {}), 1.0)) for op in must]
        self.linked = [m.ops for m in matches]
        self.reached: list[tuple[Sequence[float], Collection[int]]] = []

    def solve(self, cost: list[float]) -> Solution:
        """The solution with this cost, without rings."""
        while True:
            solution = solve(BinaryProgram(cost, [*self.rows, *self.kept()]))
            chosen = sorted(solution.chosen)
            ring = self.ring([self.matches[x] for x in chosen])
            if ring is None:
                return solution
            members = [chosen[k] for k in ring]
            self.rows.append((1.0 - len(members), dict.fromkeys(members, -1.0)))
            self.linked.append(tuple(op for x in members for op in self.matches[x].ops))

    def kept(self) -> list[tuple[float, dict[int, float]]]:
        """Rows that keep the optima reached so far, one for each group of linked matches."""
        out = []
        for sizes, chosen in self.reached:
            for group in _groups(self.linked):
                row = {x: sizes[x] for x in group if x < len(sizes) and sizes[x]}
                out.append((sum(row[x] for x in row if x in chosen), row))
        return out


def _groups(chains: Sequence[tuple[Op, ...]]) -> list[list[int]]:
    """The numbers of chains in each group; chains that share ops are in one group."""
    root: dict[Op, Op] = {}

    def find(op: Op) -> Op:
        root.setdefault(op, op)
        while root[op] is not op:
            root[op] = root[root[op]]
            op = root[op]
        return op

    for first, *others in chains:
        for op in others:
            root[find(op)] = find(first)
    groups: dict[Op, list[int]] = {}
    for k, (first, *_) in enumerate(chains):
        groups.setdefault(find(first), []).append(k)
    return list(groups.values())
