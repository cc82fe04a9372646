"""Bounds of integers, and the arithmetic of their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx


@dataclass(frozen=True)
class ElementRange:
    """The smallest and the largest element, as expressions of int64; None is unknown."""

    low: Any = None
    high: Any = None

    def union(self, other: ElementRange) -> ElementRange:
        """Return bounds of the elements of either."""
        return ElementRange(pick(min, tirx.min, self.low, other.low),
                      pick(max, tirx.max, self.high, other.high))  # fmt: skip


NO_BOUND = ElementRange()


class Elements(Protocol):
    """The bounds of what the operands of a call have."""

    def of(self, expr: Any) -> ElementRange:
        """Return the bounds of the elements of an expression."""

    def fields(self, expr: Any) -> list[ElementRange]:
        """Return the bounds of the fields of a tuple."""

    def sizes(self, expr: Any) -> list[Any]:
        """Return the sizes in a shape."""


def pick(plain: Any, symbolic: Any, a: Any, b: Any) -> Any:
    """Return the smaller or larger of two ends; None if one is unknown."""
    if a is None or b is None:
        return None
    x, y = number(a), number(b)
    return int64(plain(x, y)) if x is not None and y is not None else symbolic(a, b)


def either(plain: Any, symbolic: Any, a: Any, b: Any) -> Any:
    """Return the smaller or larger of the ends that are known."""
    known = [end for end in (a, b) if end is not None]
    return pick(plain, symbolic, a, b) if len(known) == 2 else known[0] if known else None


def plus(a: Any, b: Any, sign: int = 1) -> Any:
    """Return the sum of two ends, or their difference; None if it has more than 64 bits."""
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return int64(x + sign * y)
    return a + b if sign > 0 else a - b


def int64(value: int) -> Any:
    """Return a number as an end; None if it has more than 64 bits."""
    return tirx.IntImm("int64", value) if -(1 << 63) <= value < 1 << 63 else None


def number(end: Any) -> int | None:
    """Return an end as a number; None if it is unknown or symbolic."""
    return int(end) if isinstance(end, tirx.IntImm) else None
