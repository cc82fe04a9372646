"""Coarse patterns: subgraphs as large as possible, of operators that a backend takes.

    Coarse("network", one("relax.nn.conv2d", nhwc, float16), one(("relax.add", "relax.nn.relu")))

A region is connected and convex: no path leaves it and comes back, since a backend is called once.
If a path through an operator x outside does, a region has either nothing above x or nothing below
x. Both cases are tried, so all maximal regions are found:

    conv → relu → exp → add, relu → add     exp is not taken: {conv, relu} and {add} are regions;
                                            {conv, relu, add} would need the result of exp
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...layout.graph.relax_graph import Op
from .dependences import Dependences, Set, bits
from .elementwise_groups import Infos
from .pattern import Node, PatternStep
from .pattern_node import node
from .pattern_step import listed
from .suggest import Unmet

#: The number of sets examined; beyond it, only one of the two cases is tried.
MOST = 2000


@dataclass(frozen=True)
class Coarse:
    """A subgraph pattern: any number of operators that match one of the steps.

    Args:
        name: Identifies the pattern in messages, plans and ``force``.
        steps: The steps; each operator of a region must match one of them.
    """

    name: str
    steps: tuple[PatternStep, ...]

    def __init__(self, name: str, *steps: PatternStep) -> None:
        if not steps:
            raise ValueError(f"coarse pattern {name!r}: expected at least one step, got none")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "steps", steps)

    def why_not(self, op: Op, infos: Infos) -> str | None:
        """Why an op cannot be in a region; None if it can.

        Args:
            op: The op.
            infos: The operators that were recovered, by op.
        """
        candidate = node(op, infos)
        if candidate is None:
            return "it is not recognised in its layout"
        failed = self.failing(candidate)
        return None if failed is None else failed[1].reason

    def failing(self, candidate: Node) -> tuple[int, Unmet] | None:
        """`PatternStep.failing` of the step that comes closest."""
        name = candidate.info.name
        failed = [s.failing(candidate) for s in self.steps if name in s.names]
        if not failed:
            names = {n for s in self.steps for n in s.names}
            return -2, Unmet(f"{name} is not {listed(names)}")
        if None in failed:
            return None
        return max(f for f in failed if f is not None)

    def regions(
        self, flows: Sequence[Dependences], ops: Sequence[Op], infos: Infos
    ) -> Iterator[tuple[Op, ...]]:
        """The maximal regions of some ops. An op outside of dataflow blocks is its own region.

        Args:
            flows: The dependences in each dataflow block.
            ops: The ops that may be in regions.
            infos: The operators that were recovered, by op.
        """
        eligible = [op for op in ops if self.why_not(op, infos) is None]
        inside: set[Op] = set()
        for dependences in flows:
            inside |= set(dependences.ops.values())
            for subset in maximal(dependences, dependences.set(eligible)):
                yield tuple(dependences.ops[k] for k in bits(subset))
        yield from ((op,) for op in eligible if op not in inside)

    def allows(self, flows: Sequence[Dependences], ops: Sequence[Op], infos: Infos) -> bool:
        """Whether ops are a region, not necessarily a maximal one.

        Args:
            flows: The dependences in each dataflow block.
            ops: The ops, in the order of the function.
            infos: The operators that were recovered, by op.
        """
        if any(self.why_not(op, infos) is not None for op in ops):
            return False
        if len(ops) == 1:
            return True
        for dependences in flows:
            members = dependences.set(ops)
            if [dependences.ops[k] for k in bits(members)] == list(ops):
                return (
                    not dependences.between(members)
                    and len(list(dependences.components(members))) == 1
                )
        return False


def maximal(flow: Dependences, eligible: Set) -> list[Set]:
    """The maximal connected convex subsets of a set."""
    convex: set[Set] = set()
    seen: set[Set] = set()
    todo = list(flow.components(eligible))
    while todo:
        subset = todo.pop()
        if subset in seen:
            continue
        seen.add(subset)
        outside = flow.between(subset)
        if not outside:
            convex.add(subset)
            continue
        x = next(bits(outside))
        late = subset & flow.below[x]
        early = subset & flow.above[x] if len(seen) < MOST else subset & ~late
        for removed in (late, early):
            todo += flow.components(subset & ~removed)
    largest: list[Set] = []
    for subset in sorted(convex, key=lambda s: (-s.bit_count(), s)):
        if not any(subset & ~t == 0 for t in largest):
            largest.append(subset)
    return sorted(largest, key=lambda s: s & -s)
