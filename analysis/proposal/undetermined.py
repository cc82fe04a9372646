"""Undetermined attributes: other values would give the same compute.

A convolution with one output in a dimension reads the same elements for any stride, one whose
kernel has one tap for any dilation, and trailing padding that no window reaches has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..terms.term import Int
from .answer_values import Structural, same

#: A number, or an expression over the PrimFunc's variables.
Bound = Any

#: The most other values that are listed.
LISTED = 24


@dataclass(frozen=True, eq=False)
class Undetermined(Structural):
    """An attribute, or one entry of it, that the compute does not determine.

    With all other attributes unchanged, each of the values gives the same result.

    Attributes:
        attribute: The attribute's name.
        reason: Why it is undetermined.
        position: The entry of the attribute; None for the whole attribute.
        low: The smallest value; None for no bound.
        high: The largest value; None for no bound.
        values: The possible values, where they are not a range.
        partner: An entry of another attribute that must change by the same amount.
    """

    attribute: str
    reason: str
    position: int | None = None
    low: Bound = None
    high: Bound = None
    values: tuple[Any, ...] = ()
    partner: tuple[str, int] | None = None

    def __str__(self) -> str:
        name = self.attribute if self.position is None else f"{self.attribute}[{self.position}]"
        partner = f" and {self.partner[0]}[{self.partner[1]}] by as much" if self.partner else ""
        return f"{name} {self._range()}{partner} ({self.reason})"

    def _range(self) -> str:
        if self.values:
            return f"in {{{', '.join(map(str, self.values))}}}"
        if self.low is None and self.high is None:
            return "is any number"
        if self.high is None:
            return f">= {self.low}"
        return f"<= {self.high}" if self.low is None else f"in {self.low}..{self.high}"

    def allows(self, value: Any) -> bool:
        """Whether the compute is the same with this value; a symbolic bound allows only itself."""
        if self.values:
            return any(_alike(v, value) for v in self.values)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return same(value, self.low) or same(value, self.high)
        low, high = _number(self.low), _number(self.high)
        above = self.low is None or (low is not None and low <= value)
        return above and (self.high is None or (high is not None and value <= high))


def _number(bound: Bound) -> int | float | None:
    if isinstance(bound, Int):
        return bound.const
    return bound if isinstance(bound, (int, float)) else None


def _alike(a: Any, b: Any) -> bool:
    """Equal and of one type: 1 is not True. Lists are written as tuples too."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_alike, a, b))
    return type(a) is type(b) and same(a, b)


def flags(attributes: Iterable[str], reason: str) -> tuple[Undetermined, ...]:
    """Return boolean attributes that do not change the compute."""
    return tuple(Undetermined(a, reason, values=(False, True)) for a in attributes)


def numbers(attributes: Iterable[str], reason: str) -> tuple[Undetermined, ...]:
    """Return numeric attributes that do not change the compute."""
    return tuple(Undetermined(a, reason) for a in attributes)


def axes_with(
    fixed: Sequence[int], spare: Sequence[int], attribute: str = "axis"
) -> tuple[Undetermined, ...]:
    """Return a list of axes to which axes of extent 1 may be added."""
    if not spare:
        return ()
    more = (m for k in range(len(spare) + 1) for m in combinations(spare, k))
    lists = [sorted({*fixed, *m}) for m, _ in zip(more, range(LISTED), strict=False)]
    return among(attribute, [x for x in lists if x], "dimensions of extent 1 leave no trace")


def among(attribute: str, values: Sequence[Any], reason: str) -> tuple[Undetermined, ...]:
    """Return an attribute with the values it may have; nothing if there is only one."""
    return (Undetermined(attribute, reason, values=tuple(values)),) if len(values) > 1 else ()
