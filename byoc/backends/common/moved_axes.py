"""Tensors that others see in moved axes, without a copy: digits of a linear index with their steps.

An axis is a row of digits, the most significant one first. A permutation moves axes, a reshape
divides and regroups digits, a slice shortens one and moves the first element. Steps count elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

Digit = tuple[int, int]
"""An extent greater than 1, and how far apart its elements lie."""


@dataclass(frozen=True)
class Strided:
    """A tensor in the memory of another one.

    Attributes:
        axes: The digits of each axis.
        offset: How far the first element lies from the start of that memory.
    """

    axes: tuple[tuple[Digit, ...], ...]
    offset: int = 0

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
        return replace(self, axes=tuple(self.axes[k] for k in order))

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
        return None if rest else replace(self, axes=tuple(axes))

    def broadcast(self, shape: Sequence[int]) -> Strided:
        """The tensor in a shape that it broadcasts to; repeated elements are in the same place."""
        own = (*[()] * (len(shape) - len(self.axes)), *self.axes)
        axes = tuple(axis or _digits([(int(e), 0)]) for axis, e in zip(own, shape, strict=True))
        return replace(self, axes=axes)

    def repeated(self, axis: int, times: int) -> Strided:
        """The tensor with each element of an axis so many times in a row, in the same place."""
        digits = (*self.axes[axis], *_digits([(times, 0)]))
        return replace(self, axes=(*self.axes[:axis], digits, *self.axes[axis + 1 :]))

    def sliced(self, axis: int, begin: int, extent: int) -> Strided | None:
        """The elements of an axis from ``begin`` on; None if they are not equally far apart."""
        digits = _joined(self.axes[axis])
        if len(digits) > 1 and extent != self.shape[axis]:
            return None
        step = digits[0][1] if digits else 0
        kept = digits if len(digits) > 1 else _digits([(extent, step)])
        axes = (*self.axes[:axis], kept, *self.axes[axis + 1 :])
        return Strided(axes, self.offset + begin * step)

    def step(self, axis: int) -> int | None:
        """How far apart the elements of an axis lie; None if it varies. It is 1 for one element."""
        digits = _joined(self.axes[axis])
        return (digits[0][1] if digits else 1) if len(digits) < 2 else None


#: Operators whose result is their operand in other axes, a part of it or repeated.
MOVES = ("relax.reshape", "relax.permute_dims", "relax.astype", "relax.expand_dims",
         "relax.squeeze", "relax.flatten", "relax.broadcast_to", "relax.strided_slice",
         "relax.repeat")  # fmt: skip


def moved(
    place: Strided, op: str, attrs: Mapping[str, Any], shape: Sequence[int]
) -> Strided | None:
    """The operand of one of `MOVES` as its result of this shape; None if that takes a copy."""
    match op:
        case "relax.permute_dims":
            return place.permuted(_order(attrs["axes"], len(place.axes)))
        case "relax.broadcast_to":
            return place.broadcast(shape)
        case "relax.strided_slice":
            return _sliced(place, attrs, shape)
        case "relax.repeat":
            axis = attrs["axis"]
            if axis is None:
                return None
            return place.repeated(int(axis) % len(place.axes), int(attrs["repeats"]))
        case "relax.astype":
            return place
    return place.reshaped(shape)


def unmoved(
    place: Strided, op: str, attrs: Mapping[str, Any], shape: Sequence[int]
) -> Strided | None:
    """The result of a move that keeps all elements as its operand of this shape, or None."""
    if op != "relax.permute_dims":
        return moved(place, op, attrs, shape)
    order = _order(attrs["axes"], len(place.axes))
    return place.permuted([order.index(k) for k in range(len(order))])


def _order(axes: Sequence[Any] | None, rank: int) -> list[int]:
    return [*range(rank)][::-1] if axes is None else [int(a) % rank for a in axes]


def _sliced(place: Strided, attrs: Mapping[str, Any], shape: Sequence[int]) -> Strided | None:
    """A slice with step 1, one axis after another; ``shape`` is that of the result."""
    sliced: Strided | None = place
    for axis, begin, step in zip(attrs["axes"], attrs["begin"], attrs["strides"], strict=True):
        k = int(axis) % len(place.axes)
        first = int(begin) + (place.shape[k] if int(begin) < 0 else 0)
        if sliced is None or int(step) != 1 or not 0 <= first <= place.shape[k] - shape[k]:
            return None
        sliced = sliced.sliced(k, first, shape[k])
    return sliced


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
