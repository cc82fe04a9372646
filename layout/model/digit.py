"""Digits of a coordinate, of which layouts are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Digit(NamedTuple):
    """One digit of an axis: ``x[axis] // div % extent``.

    Attributes:
        axis: The axis of the value.
        div: The divisor.
        extent: The modulus; None for the highest digit of the axis.
    """

    axis: int
    div: int = 1
    extent: int | None = None

    def of(self, index: Sequence[Any]) -> Any:
        """The digit at an index, which has an integer or expression for each axis."""
        value = index[self.axis] if self.div == 1 else index[self.axis] // self.div
        return value if self.extent is None else value % self.extent

    def size(self, shape: Sequence[Any]) -> Any:
        """The number of values, of an axis as long as the shape has it."""
        if self.extent is not None or self.div == 1:
            return shape[self.axis] if self.extent is None else self.extent
        return (shape[self.axis] + (self.div - 1)) // self.div
