"""Tensors that others see in moved axes, without a copy: digits of a linear index with their steps.

An axis is a row of digits, the most significant one first. A permutation moves axes, a reshape
divides and regroups digits. Steps count elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

Digit = tuple[int, int]
"""An extent greater than 1, and how far apart its elements lie."""


@dataclass(frozen=True)
class Strided:
    """A tensor in the memory of another one.

    Attributes:
        axes: The digits of each axis.
    """

    axes: tuple[tuple[Digit, ...], ...]

    @staticmethod
    def plain(shape: Sequence[int]) -> Strided:
        """A tensor whose axes lie in order."""
        axes, step = [], 1
        for extent in reversed(shape):
            axes.append(_digits([(int(extent), step)]))
            step *= int(extent)
        return Strided(tuple(reversed(axes)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(e for e, _ in axis) for axis in self.axes)

    def permuted(self, order: Sequence[int]) -> Strided:
        return Strided(tuple(self.axes[k] for k in order))

    def reshaped(self, shape: Sequence[int]) -> Strided | None:
        """The tensor in another shape; None if an extent does not divide another one."""
        rest = list(_joined([digit for axis in self.axes for digit in axis]))
        axes = []
        for extent in map(int, shape):
            axis: list[Digit] = []
            while extent > 1:
                if not rest:
                    return None
                (size, step), *rest = rest
                low = size // extent if size > extent else 1
                if size % low or extent % (size // low):
                    return None
                axis.append((size // low, step * low))
                rest = [*_digits([(low, step)]), *rest]
                extent //= size // low
            axes.append(tuple(axis))
        return None if rest else Strided(tuple(axes))

    def broadcast(self, shape: Sequence[int]) -> Strided:
        """The tensor in a shape that it broadcasts to; repeated elements are in the same place."""
        own = (*[()] * (len(shape) - len(self.axes)), *self.axes)
        axes = tuple(axis or _digits([(int(e), 0)]) for axis, e in zip(own, shape, strict=True))
        return Strided(axes)

    def step(self, axis: int) -> int | None:
        """How far apart the elements of an axis lie; None if it varies. It is 1 for one element."""
        digits = _joined(self.axes[axis])
        return (digits[0][1] if digits else 1) if len(digits) < 2 else None


def _digits(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    return tuple(d for d in digits if d[0] != 1)


def _joined(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """The fewest digits with the same elements."""
    out: list[Digit] = []
    for extent, step in digits:
        if out and out[-1][1] == extent * step:
            out[-1] = out[-1][0] * extent, step
        else:
            out.append((extent, step))
    return tuple(out)


def common_steps(
    tensors: Sequence[tuple[Digit, ...]],
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
    """The fewest axes that some tensors of the same elements have in common, by their digits.

    Returns:
        The extents of the axes, and the steps of each tensor along them; None if the tensors have
        no axes in common.
    """
    rest = [list(t) for t in tensors]
    columns: list[tuple[int, tuple[int, ...]]] = []  # the least significant axis first
    while any(rest):
        if not all(rest):
            return None
        extent = min(t[-1][0] for t in rest)
        if any(t[-1][0] % extent for t in rest):
            return None
        steps = tuple(t[-1][1] for t in rest)
        for digits in rest:
            size, step = digits.pop()
            digits += _digits([(size // extent, step * extent)])
        if columns and all(s == columns[-1][0] * low
                           for s, low in zip(steps, columns[-1][1], strict=True)):  # fmt: skip
            columns[-1] = columns[-1][0] * extent, columns[-1][1]
        else:
            columns.append((extent, steps))
    columns.reverse()
    return tuple(e for e, _ in columns), tuple(zip(*(s for _, s in columns), strict=True)) or tuple(
        () for _ in tensors
    )
