"""Patterns over recovered operators: an anchor, then a chain of what may follow it.

    Pattern("conv2d", anchor(conv), maybe(add_bias), maybe(add_residual), maybe(activation))

A chain follows one value: each step reads the result of the one before, and nothing else does. A
step may bring sources: what makes its other operands, where nothing else reads them.

    one(conv, takes=dequantized)        dequantize, dequantize → conv → add → relu → quantize
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op, Value
from .elementwise_groups import Infos, group
from .failure import ForeignError, foreign
from .op_names import check_names
from .suggest import Unmet

Condition = Callable[["Node"], "str | Unmet | bool | None"]
"""None if it holds, else why not, for people, and what would mend it where that is known.

True and False are taken too; a reason says more.
"""


@dataclass(frozen=True)
class Node:
    """An operator of the graph as a condition sees it.

    Attributes:
        op: The call.
        info: What it was recovered to be.
        chain: The value that it follows in the chain; None for an anchor.
        ops: The calls, where several are one function of `chain`.
        infos: What all operators were recovered to be.
    """

    op: Op
    info: OpInfo
    chain: Value | None = None
    ops: tuple[Op, ...] = ()
    infos: Infos = field(default_factory=dict, compare=False, repr=False)

    def operand(self, k: int) -> Value | None:
        """The value of an operand; None if it is a literal scalar."""
        if k >= len(self.info.operands):
            return None
        found = self.info.operands[k]
        return None if isinstance(found, Constant) else self.op.values[found]

    def source(self, k: int) -> Node | None:
        """What makes an operand, if nothing else reads it."""
        v = self.operand(k)
        if v is None or v is self.chain or not _only_here(v):
            return None
        made = (node(op, self.infos) for op in ([v.producer] if v.producer else v.makers))
        return next((n for n in made if n is not None and len(n.op.outputs) == 1), None)

    @property
    def others(self) -> tuple[Value, ...]:
        """The operands beside the one that it follows."""
        found = (self.operand(k) for k in range(len(self.info.operands)))
        return tuple(v for v in found if v is not None and v is not self.chain)

    @property
    def result(self) -> Value:
        return self.op.outputs[0]

    @property
    def tensors(self) -> list[Value]:
        """The result and the operands."""
        found = (self.result, *(self.operand(k) for k in range(len(self.info.operands))))
        return [v for v in found if v is not None]


Sources = Callable[["Node"], Sequence[Op]]
"""Those ops of `Node.source` that are taken with an op."""


def nothing(node: Node) -> Sequence[Op]:
    """An op is taken without what makes its operands."""
    return ()


@dataclass(frozen=True)
class PatternStep:
    """Between ``least`` and ``most`` ops in a row with one of these names and all conditions.

    ``takes``: the ops that come with each one, before it. ``laid`` are conditions on layouts, which
    may be chosen so that they hold.
    """

    names: frozenset[str]
    conditions: tuple[Condition, ...] = ()
    least: int = 1
    most: int | None = 1
    takes: Sources = nothing
    laid: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        check_names(sorted(self.names), "step")
        for c in (*self.conditions, *self.laid, self.takes):
            if not callable(c):
                raise TypeError(f"step of {listed(self.names)}: expected a condition that is "
                                f"called with a Node, got {c!r}")  # fmt: skip

    def taken(self, node: Node) -> tuple[Op, ...]:
        """An op that meets the conditions, after what comes with it."""
        return (*dict.fromkeys(self.takes(node)), *(node.ops or (node.op,)))

    def why_not(self, node: Node) -> str | None:
        """The first condition that fails."""
        found = self.failing(node)
        return None if found is None else found[1].reason

    def failing(self, node: Node) -> tuple[int, Unmet] | None:
        """How many conditions hold before the first one that fails, and that one."""
        if node.info.name not in self.names:
            return -2, Unmet(f"{node.info.name} is not {listed(self.names)}")
        if len(node.op.outputs) != 1:
            return -1, Unmet(f"{node.info.name} has {len(node.op.outputs)} results")
        if (reason := _swapped(node.info)) is not None:
            return 0, Unmet(reason)
        told = ((k, unmet(c, c(node))) for k, c in enumerate((*self.conditions, *self.laid)))
        return next(((k, found) for k, found in told if found is not None), None)


def _swapped(info: OpInfo) -> str | None:
    """Libraries differ in what it is to clip from above to below."""
    if info.name != "relax.clip" or info.attrs["min"] <= info.attrs["max"]:
        return None
    return f"clip is from {info.attrs['min']} to {info.attrs['max']}, bounds in order are taken"


def unmet(condition: Condition, told: str | Unmet | bool | None) -> Unmet | None:
    """What a condition returned; raises ``TypeError`` where that is no answer."""
    if told is None or told is True:
        return None
    if told is False:
        return Unmet(f"the condition {name_of(condition)} does not hold")
    if isinstance(told, str) and told:
        return Unmet(told)
    if isinstance(told, Unmet) and isinstance(told.reason, str) and isinstance(told.mend, str):
        return told
    raise TypeError(f"it returned {told!r}, expected None, a reason, an Unmet or a bool")


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called, and where a lambda stands."""
    name = _qualname(function).replace("<locals>.", "")
    code = getattr(function, "__code__", None)
    if "<lambda>" not in name or code is None:
        return name
    return f"{name} (line {code.co_firstlineno} of {Path(code.co_filename).name})"


def _qualname(function: Callable[..., Any]) -> str:
    """Of an object that is called, what it says of itself, or else its type."""
    try:
        with foreign():
            return str(getattr(function, "__qualname__", None) or repr(function))
    except ForeignError:
        return type(function).__name__


def listed(names: Collection[str], most: int = 4) -> str:
    """``a, b or c``; where there are many, the first of them."""
    shown = sorted(names)[:most]
    if len(names) > most:
        return f"{', '.join(shown)} or {len(names) - most} others"
    return " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def one(
    names: str | Collection[str], *conditions: Condition, takes: Sources = nothing,
    laid: tuple[Condition, ...] = (),
) -> PatternStep:  # fmt: skip
    """Return a step that matches exactly one operator.

    Args:
        names: An operator's Relax name, or several.
        conditions: Functions of a `Node` that return None, or why the operator does not match.
        takes: A function of a `Node` that returns the producers of operands to include, such as a
            dequantize.
        laid: Conditions on layouts, which planning layouts can make true.

    Returns:
        A step of a `Pattern` or `Coarse`.
    """
    found = frozenset([names] if isinstance(names, str) else names)
    return PatternStep(found, conditions, takes=takes, laid=laid)


def maybe(names: str | Collection[str], *conditions: Condition) -> PatternStep:
    """Return a step that matches one operator or none.

    Args:
        names: An operator's Relax name, or several; with or without ``relax.`` in front.
        conditions: Functions of a `Node` that return None, or why the operator does not match.

    Returns:
        A step of a `Pattern` or `Coarse`.
    """
    return PatternStep(frozenset([names] if isinstance(names, str) else names), conditions, 0)


def many(names: str | Collection[str], *conditions: Condition) -> PatternStep:
    """Return a step that matches any number of operators.

    Args:
        names: An operator's Relax name, or several; with or without ``relax.`` in front.
        conditions: Functions of a `Node` that return None, or why the operator does not match.

    Returns:
        A step of a `Pattern` or `Coarse`.
    """
    return PatternStep(frozenset([names] if isinstance(names, str) else names), conditions, 0, None)


@dataclass(frozen=True)
class MatchState:
    """The beginning of a pattern: the last op is the ``count``-th of the step ``step``."""

    chain: tuple[Op, ...]
    step: int
    count: int


@dataclass(frozen=True)
class Pattern:
    """A chain of operators.

    Args:
        name: Identifies the pattern in messages, plans and ``force``.
        steps: The anchor, then what may follow it.
    """

    name: str
    steps: tuple[PatternStep, ...]

    def __init__(self, name: str, *steps: PatternStep) -> None:
        for s in steps:
            if not isinstance(s, PatternStep):
                raise TypeError(f"pattern {name!r}: expected one(...), maybe(...) or many(...), "
                                f"got {s!r}")  # fmt: skip
        if not steps or steps[0].least != 1:
            raise ValueError(
                f"pattern {name!r}: the first step is the anchor and must match one op"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "steps", steps)

    @property
    def in_any_layout(self) -> Pattern:
        """The same without conditions on layouts."""
        return Pattern(self.name, *(replace(s, laid=()) for s in self.steps))

    def matches(self, anchor: Op, infos: Infos) -> Iterator[tuple[Op, ...]]:
        """All chains from this anchor, the shortest first."""
        seen: set[tuple[Op, ...]] = set()
        for s in self.states(anchor, infos):
            if self.done(s) and s.chain not in seen:
                seen.add(s.chain)
                yield s.chain

    def states(self, anchor: Op, infos: Infos) -> Iterator[MatchState]:
        """All ways to begin the pattern at this anchor."""
        start = node(anchor, infos)
        if start is None or self.steps[0].why_not(start) is not None:
            return
        stack = [MatchState(self.steps[0].taken(start), 0, 1)]
        while stack:
            state = stack.pop()
            yield state
            for after in followers(state.chain[-1], infos):
                for k, n in self.next(state):
                    if self.steps[k].why_not(after) is None:
                        taken = self.steps[k].taken(after)
                        stack.append(MatchState((*state.chain, *taken), k, n))

    def next(self, s: MatchState) -> Iterator[tuple[int, int]]:
        """The steps that the next op may be, and which of that step's ops it would be."""
        for k in range(s.step, len(self.steps)):
            step, n = self.steps[k], s.count if k == s.step else 0
            if step.most is None or n < step.most:
                yield k, n + 1
            if n < step.least:
                break

    def done(self, s: MatchState) -> bool:
        """Whether nothing more has to follow."""
        rest = self.steps[s.step + 1 :]
        return s.count >= self.steps[s.step].least and all(r.least == 0 for r in rest)


def node(op: Op, infos: Infos, chain: Value | None = None) -> Node | None:
    """The op with its info; None where it was not recovered, or its attributes do not tell all."""
    found = infos[op].info
    if not isinstance(found, OpInfo) or found.packed:
        return None
    return Node(op, found, chain, (), infos)


def _only_here(v: Value) -> bool:
    """Whether the program needs a value only where one op reads it."""
    several = len(v.uses) > 1 and any(u.origin is None for u in v.uses)
    return v.pinned is None and not several


def follower(op: Op, infos: Infos) -> Node | None:
    """The only user of an op's only result, if the program needs it nowhere else."""
    return next(followers(op, infos), None)


def followers(op: Op, infos: Infos) -> Iterator[Node]:
    """The same in each way in which that user can be done; several that are one function."""
    if len(op.outputs) != 1:
        return
    (v,) = op.outputs
    if _only_here(v):
        found = (node(u, infos, v) for u in v.uses)
        yield from (n for n in found if n is not None)
    elif (together := group(v, infos)) is not None:
        yield Node(together.op, together.info, v, together.ops, infos)
