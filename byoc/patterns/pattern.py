"""Patterns over recovered operators: an anchor, then a chain of operators that may follow it.

    Pattern("conv2d", anchor(conv), maybe(add_bias), maybe(add_residual), maybe(activation))

A chain follows one value: only the next step reads the result of a step. A step may also take the
producers of its other operands, its sources, if nothing else reads them.

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
"""Returns None if it holds, else the reason, perhaps with a suggestion.

True and False work too, but give no reason.
"""


@dataclass(frozen=True)
class Node:
    """An operator of the graph, as passed to a condition.

    Attributes:
        op: The call site.
        info: The recovered operator.
        chain: The value that it follows in the chain; None for an anchor.
        ops: The call sites, if several together compute one function of `chain`.
        infos: The recovered operators of the graph.
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
        operand = self.info.operands[k]
        return None if isinstance(operand, Constant) else self.op.values[operand]

    def source(self, k: int) -> Node | None:
        """The producer of an operand, if nothing else reads it."""
        value = self.operand(k)
        if value is None or value is self.chain or not _only_here(value):
            return None
        nodes = (
            node(op, self.infos) for op in ([value.producer] if value.producer else value.makers)
        )
        return next((n for n in nodes if n is not None and len(n.op.outputs) == 1), None)

    @property
    def others(self) -> tuple[Value, ...]:
        """The operands except the value that the chain follows."""
        values = (self.operand(k) for k in range(len(self.info.operands)))
        return tuple(v for v in values if v is not None and v is not self.chain)

    @property
    def result(self) -> Value:
        return self.op.outputs[0]

    @property
    def results(self) -> tuple[Value, ...]:
        """The results that the program uses, and the first one."""
        used = (v for v in self.op.outputs[1:] if v.uses or v.pinned is not None)
        return (self.result, *used)

    @property
    def tensors(self) -> list[Value]:
        """The results and the operands."""
        values = (*self.results, *(self.operand(k) for k in range(len(self.info.operands))))
        return [v for v in values if v is not None]


Sources = Callable[["Node"], Sequence[Op]]
"""Returns the sources, results of `Node.source`, that a region takes together with a node."""


def nothing(node: Node) -> Sequence[Op]:
    """The default sources: none."""
    return ()


@dataclass(frozen=True)
class PatternStep:
    """Between ``least`` and ``most`` operators in a row.

    Attributes:
        names: The operators that match.
        conditions: All must hold.
        least: The fewest operators.
        most: The most operators; None for any number.
        takes: Returns the sources of an operator.
        laid: Conditions on layouts; planning layouts can make them hold.
        several: Whether an operator may have several results, as only subgraphs can.
    """

    names: frozenset[str]
    conditions: tuple[Condition, ...] = ()
    least: int = 1
    most: int | None = 1
    takes: Sources = nothing
    laid: tuple[Condition, ...] = ()
    several: bool = False

    def __post_init__(self) -> None:
        check_names(sorted(self.names), "step")
        for function in (*self.conditions, *self.laid, self.takes):
            if not callable(function):
                raise TypeError(f"step of {listed(self.names)}: expected a function of a "
                                f"Node, got {function!r}")  # fmt: skip

    def region_ops(self, node: Node) -> tuple[Op, ...]:
        """The operators that a region takes for a node: its sources, then itself."""
        return (*dict.fromkeys(self.takes(node)), *(node.ops or (node.op,)))

    def accepts(self, node: Node) -> bool:
        """Whether the node matches; most do not by their names, which takes no reason."""
        return node.info.name in self.names and self.failing(node) is None

    def why_not(self, node: Node) -> str | None:
        """The reason of the first condition that fails; None if all hold."""
        failed = self.failing(node)
        return None if failed is None else failed[1].reason

    def failing(self, node: Node) -> tuple[int, Unmet] | None:
        """The first condition that fails, after the number of conditions that hold before it."""
        if node.info.name not in self.names:
            return -2, Unmet(f"{node.info.name} is not {listed(self.names)}")
        if len(node.op.outputs) != 1 and not self.several:
            return -1, Unmet(f"{node.info.name} has {len(node.op.outputs)} results")
        if (reason := _swapped(node.info)) is not None:
            return 0, Unmet(reason)
        results = ((k, unmet(c, c(node))) for k, c in enumerate((*self.conditions, *self.laid)))
        return next(((k, failed) for k, failed in results if failed is not None), None)


def _swapped(info: OpInfo) -> str | None:
    """Why a clip is not taken. Libraries disagree if its minimum exceeds its maximum."""
    if info.name != "relax.clip" or info.attrs["min"] <= info.attrs["max"]:
        return None
    return f"clip is from {info.attrs['min']} to {info.attrs['max']}, expected min <= max"


def unmet(condition: Condition, result: str | Unmet | bool | None) -> Unmet | None:
    """The result of a condition as an `Unmet`; raises ``TypeError`` if it has another type."""
    if result is None or result is True:
        return None
    if result is False:
        return Unmet(f"the condition {name_of(condition)} does not hold")
    if isinstance(result, str) and result:
        return Unmet(result)
    if (isinstance(result, Unmet) and isinstance(result.reason, str)
            and isinstance(result.suggestion, str)):  # fmt: skip
        return result
    raise TypeError(f"it returned {result!r}, expected None, a reason, an Unmet or a bool")


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function; for a lambda, also its line and file."""
    name = _qualname(function).replace("<locals>.", "")
    code = getattr(function, "__code__", None)
    if "<lambda>" not in name or code is None:
        return name
    return f"{name} (line {code.co_firstlineno} of {Path(code.co_filename).name})"


def _qualname(function: Callable[..., Any]) -> str:
    """The qualified name of a callable object, or its repr, or its type if these raise."""
    try:
        with foreign():
            return str(getattr(function, "__qualname__", None) or repr(function))
    except ForeignError:
        return type(function).__name__


def listed(names: Collection[str], most: int = 4) -> str:
    """``a, b or c``; of many names, the first few."""
    shown = sorted(names)[:most]
    if len(names) > most:
        return f"{', '.join(shown)} or {len(names) - most} others"
    return " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def one(
    names: str | Collection[str], *conditions: Condition, takes: Sources = nothing,
    laid: tuple[Condition, ...] = (), several: bool = False,
) -> PatternStep:  # fmt: skip
    """Return a step that matches exactly one operator.

    Args:
        names: An operator's full Relax name, such as ``relax.nn.relu``, or several.
        conditions: Functions of a `Node` that return None, or why the operator does not match.
        takes: A function of a `Node` that returns the producers to take with it, such as a
            dequantize.
        laid: Conditions on layouts, which layout planning can satisfy.
        several: Whether the operator may have several results; only `Coarse` takes such.

    Returns:
        A step of a `Pattern` or `Coarse`.

    Raises:
        ValueError: An operator does not exist; the message suggests similar names.
    """
    names = frozenset([names] if isinstance(names, str) else names)
    return PatternStep(names, conditions, takes=takes, laid=laid, several=several)


def maybe(names: str | Collection[str], *conditions: Condition) -> PatternStep:
    """Return a step that matches one operator or none.

    Args:
        names: An operator's full Relax name, such as ``relax.nn.relu``, or several.
        conditions: Functions of a `Node` that return None, or why the operator does not match.

    Returns:
        A step of a `Pattern` or `Coarse`.

    Raises:
        ValueError: An operator does not exist; the message suggests similar names.
    """
    return PatternStep(frozenset([names] if isinstance(names, str) else names), conditions, 0)


def many(names: str | Collection[str], *conditions: Condition) -> PatternStep:
    """Return a step that matches any number of operators.

    Args:
        names: An operator's full Relax name, such as ``relax.nn.relu``, or several.
        conditions: Functions of a `Node` that return None, or why the operator does not match.

    Returns:
        A step of a `Pattern` or `Coarse`.

    Raises:
        ValueError: An operator does not exist; the message suggests similar names.
    """
    return PatternStep(frozenset([names] if isinstance(names, str) else names), conditions, 0, None)


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
        """All chains from this anchor, the shortest first."""
        seen: set[tuple[Op, ...]] = set()
        for state in self.states(anchor, infos):
            if self.is_complete(state) and state.chain not in seen:
                seen.add(state.chain)
                yield state.chain

    def states(self, anchor: Op, infos: Infos) -> Iterator[MatchState]:
        """All partial and complete matches from this anchor."""
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


def node(op: Op, infos: Infos, chain: Value | None = None) -> Node | None:
    """The operator of an op; None if it was not recovered, or its buffers are packed."""
    info = infos[op].info
    if not isinstance(info, OpInfo) or info.packed:
        return None
    return Node(op, info, chain, (), infos)


def _only_here(value: Value) -> bool:
    """Whether the program needs a value in one place only."""
    several = len(value.uses) > 1 and any(u.origin is None for u in value.uses)
    return value.pinned is None and not several


def follower(op: Op, infos: Infos) -> Node | None:
    """The only reader of an op's only result, if the program needs it nowhere else."""
    return next(followers(op, infos), None)


def followers(op: Op, infos: Infos) -> Iterator[Node]:
    """`follower` in each of its layouts, or several readers that together are one function."""
    if len(op.outputs) != 1:
        return
    (value,) = op.outputs
    if _only_here(value):
        nodes = (node(u, infos, value) for u in value.uses)
        yield from (n for n in nodes if n is not None)
    elif (merged := group(value, infos)) is not None:
        yield Node(merged.op, merged.info, value, merged.ops, infos)
