"""Patterns over recovered operators: an anchor, then a chain of what may follow it.

    Pattern("conv2d", anchor(conv), maybe(add_bias), maybe(add_residual), maybe(activation))

A chain follows one value: each step reads the result of the one before, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ..analysis.op_info import Constant, OpInfo
from ..layout.graph import Op, Value
from .region import Infos

Condition = Callable[["Node"], "str | None"]
"""None if it holds, else why not, for people."""


@dataclass(frozen=True)
class Node:
    """An op of the graph with what it was recovered to be; ``chain``: the value it follows."""

    op: Op
    info: OpInfo
    chain: Value | None = None

    def operand(self, k: int) -> Value | None:
        """The value of an operand; None if it is a literal scalar."""
        if k >= len(self.info.operands):
            return None
        found = self.info.operands[k]
        return None if isinstance(found, Constant) else self.op.values[found]

    @property
    def others(self) -> tuple[Value, ...]:
        """The operands beside the one that it follows."""
        found = (self.operand(k) for k in range(len(self.info.operands)))
        return tuple(v for v in found if v is not None and v is not self.chain)

    @property
    def result(self) -> Value:
        return self.op.outputs[0]


@dataclass(frozen=True)
class Step:
    """Between ``least`` and ``most`` ops in a row with one of these names and all conditions."""

    names: frozenset[str]
    conditions: tuple[Condition, ...] = ()
    least: int = 1
    most: int | None = 1

    def why_not(self, node: Node) -> str | None:
        """The first condition that fails."""
        if node.info.name not in self.names:
            return f"{node.info.name} is not {' or '.join(sorted(self.names))}"
        if len(node.op.outputs) != 1:
            return f"{node.info.name} has {len(node.op.outputs)} results"
        return next((r for c in self.conditions if (r := c(node)) is not None), None)


def one(names: str | Collection[str], *conditions: Condition) -> Step:
    """Exactly one op."""
    return Step(frozenset([names] if isinstance(names, str) else names), conditions)


def maybe(names: str | Collection[str], *conditions: Condition) -> Step:
    """One op or none."""
    return Step(frozenset([names] if isinstance(names, str) else names), conditions, 0)


def many(names: str | Collection[str], *conditions: Condition) -> Step:
    """Any number of ops."""
    return Step(frozenset([names] if isinstance(names, str) else names), conditions, 0, None)


@dataclass(frozen=True)
class Pattern:
    """A chain: ``steps[0]`` is the anchor."""

    name: str
    steps: tuple[Step, ...]

    def __init__(self, name: str, *steps: Step) -> None:
        if not steps or steps[0].least != 1:
            raise ValueError(
                f"pattern {name!r}: the first step is the anchor and must match one op"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "steps", steps)

    def matches(self, anchor: Op, infos: Infos) -> Iterator[tuple[Op, ...]]:
        """All chains from this anchor, the shortest first."""
        start = node(anchor, infos)
        if start is None or self.steps[0].why_not(start) is not None:
            return
        seen: set[tuple[Op, ...]] = set()
        stack: list[tuple[tuple[Op, ...], int, int]] = [((anchor,), 0, 1)]
        while stack:
            chain, step, count = stack.pop()
            if self._done(step, count) and chain not in seen:
                seen.add(chain)
                yield chain
            after = follower(chain[-1], infos)
            if after is None:
                continue
            for k in range(step, len(self.steps)):
                s, n = self.steps[k], count if k == step else 0
                if (s.most is None or n < s.most) and s.why_not(after) is None:
                    stack.append(((*chain, after.op), k, n + 1))
                if n < s.least:
                    break

    def _done(self, step: int, count: int) -> bool:
        rest = self.steps[step + 1 :]
        return count >= self.steps[step].least and all(s.least == 0 for s in rest)


def node(op: Op, infos: Infos, chain: Value | None = None) -> Node | None:
    """The op with its info; None where it was not recovered, or over buffers laid out otherwise."""
    found = infos[op].info
    if not isinstance(found, OpInfo) or found.relaid:
        return None
    return Node(op, found, chain)


def follower(op: Op, infos: Infos) -> Node | None:
    """The only user of an op's only result, if the program needs it nowhere else."""
    if len(op.outputs) != 1:
        return None
    (v,) = op.outputs
    if v.pinned is not None or len(v.uses) != 1:
        return None
    return node(v.uses[0], infos, v)


def nearest(patterns: Sequence[Pattern], op: Op, infos: Infos) -> tuple[Pattern, str] | None:
    """The pattern whose anchor has the op's name, and the first condition that fails."""
    start = node(op, infos)
    if start is None:
        return None
    for p in patterns:
        if start.info.name in p.steps[0].names:
            reason = p.steps[0].why_not(start)
            if reason is not None:
                return p, reason
    return None
