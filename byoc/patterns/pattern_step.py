"""Steps of patterns: the operators that match, the conditions on them, and how many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op
from .failure import ForeignError, foreign
from .op_names import check_names
from .pattern_node import Node
from .suggest import Unmet

Condition = Callable[["Node"], "str | Unmet | bool | None"]
"""Returns None if it holds, else the reason, perhaps with a suggestion.

True and False work too, but give no reason.
"""


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
