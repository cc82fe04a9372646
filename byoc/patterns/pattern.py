"""Patterns over recovered operators: an anchor, then a chain of operators that may follow it.

    Pattern("conv2d", anchor(conv), maybe(add_bias), maybe(add_residual), maybe(activation))

A chain follows one value: only the next step reads the result of a step. A step may also take the
producers of its other operands, its sources, if nothing else reads them.

    one(conv, takes=dequantized)        dequantize, dequantize → conv → add → relu → quantize
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...layout.graph.relax_graph import Op
from .elementwise_groups import Infos
from .pattern_node import Node, followers, node
from .pattern_step import Condition, PatternStep, many, maybe, one

#: What a pattern is written with.
__all__ = [
    "Condition",
    "MatchState",
    "Node",
    "Pattern",
    "PatternStep",
    "many",
    "maybe",
    "one",
]


@dataclass(frozen=True)
class MatchState:
    """A partial match: its last operator is the ``count``-th of step ``step``."""

    chain: tuple[Op, ...]
    step: int
    count: int


@dataclass(frozen=True)
class Pattern:
    """A chain of operators that a backend takes.

    Args:
        name: Identifies the pattern in messages, plans and ``force``.
        steps: The anchor, then the steps that may follow it.
    """

    name: str
    steps: tuple[PatternStep, ...]

    def __init__(self, name: str, *steps: PatternStep) -> None:
        for step in steps:
            if not isinstance(step, PatternStep):
                raise TypeError(f"pattern {name!r}: expected one(...), maybe(...) or many(...), "
                                f"got {step!r}")  # fmt: skip
        if not steps or steps[0].least != 1:
            raise ValueError(
                f"pattern {name!r}: the first step is the anchor and must match one op"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "steps", steps)

    @property
    def in_any_layout(self) -> Pattern:
        """The pattern without conditions on layouts."""
        return Pattern(self.name, *(replace(s, laid=()) for s in self.steps))

    def matches(self, anchor: Op, infos: Infos) -> Iterator[tuple[Op, ...]]:
        """All chains of the pattern from an op, the shortest first.

        Args:
            anchor: The op of the first step.
            infos: The operators that were recovered, by op.
        """
        seen: set[tuple[Op, ...]] = set()
        for state in self.states(anchor, infos):
            if self.is_complete(state) and state.chain not in seen:
                seen.add(state.chain)
                yield state.chain

    def states(self, anchor: Op, infos: Infos) -> Iterator[MatchState]:
        """All partial and complete matches from an op; the arguments are those of `matches`."""
        if getattr(infos[anchor].info, "name", None) not in self.steps[0].names:
            return
        start = node(anchor, infos)
        if start is None or not self.steps[0].accepts(start):
            return
        stack = [MatchState(self.steps[0].region_ops(start), 0, 1)]
        while stack:
            state = stack.pop()
            yield state
            for after in followers(state.chain[-1], infos):
                for k, n in self.next(state):
                    if self.steps[k].accepts(after):
                        ops = self.steps[k].region_ops(after)
                        stack.append(MatchState((*state.chain, *ops), k, n))

    def next(self, state: MatchState) -> Iterator[tuple[int, int]]:
        """The steps that the next operator may match, with its count within that step."""
        for k in range(state.step, len(self.steps)):
            step, n = self.steps[k], state.count if k == state.step else 0
            if step.most is None or n < step.most:
                yield k, n + 1
            if n < step.least:
                break

    def is_complete(self, state: MatchState) -> bool:
        """Whether a partial match is complete."""
        remaining = self.steps[state.step + 1 :]
        return state.count >= self.steps[state.step].least and all(r.least == 0 for r in remaining)
