"""Digits of a coordinate, the parts of layouts."""

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
        """The value of the digit at an index of integers or expressions."""
        value = index[self.axis] if self.div == 1 else index[self.axis] // self.div
        return value if self.extent is None else value % self.extent

    def size(self, shape: Sequence[Any]) -> Any:
        """The number of values of the digit in a shape."""
        if self.extent is not None or self.div == 1:
            return shape[self.axis] if self.extent is None else self.extent
        return (shape[self.axis] + (self.div - 1)) // self.div
