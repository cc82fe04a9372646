"""Tensors that others see in moved axes, without a copy: digits of a linear index with their steps.

An axis is a row of digits, the most significant one first. A permutation moves axes, a reshape
divides and regroups digits, a slice shortens one and moves the first element. Steps count elements.
Extents and steps may be polynomials over sizes that are known at run time (`extents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...patterns.extents.symbolic_extents import Extent, extent_of, product, quotient

Digit = tuple[Extent, Extent]
"""An extent greater than 1, and how far apart its elements lie."""


@dataclass(frozen=True)
class Strided:
    """A tensor in the memory of another one.

    Attributes:
        axes: The digits of each axis.
        offset: How far the first element lies from the start of that memory.
    """

    axes: tuple[tuple[Digit, ...], ...]
    offset: Extent = 0

    @staticmethod
    def plain(shape: Sequence[Any]) -> Strided:
        """A tensor whose axes lie in order."""
        axes: list[tuple[Digit, ...]] = []
        step: Extent = 1
        for extent in map(extent_of, reversed(shape)):
            axes.append(_digits([(extent, step)]))
            step = step * extent
        return Strided(tuple(reversed(axes)))

    @property
    def shape(self) -> tuple[Extent, ...]:
        return tuple(product([e for e, _ in axis]) for axis in self.axes)

    def permuted(self, order: Sequence[int]) -> Strided:
        return replace(self, axes=tuple(self.axes[k] for k in order))

    def reshaped(self, shape: Sequence[Any]) -> Strided | None:
        """The tensor in another shape; None if an extent does not divide another one."""
        rest = list(_joined([digit for axis in self.axes for digit in axis]))
        axes = []
        for extent in map(extent_of, shape):
            axis: list[Digit] = []
            while extent != 1:
                if not rest:
                    return None
                (size, step), *rest = rest
                after, low = quotient(extent, size), quotient(size, extent)
                if after is not None:
                    axis.append((size, step))
                    extent = after
                elif low is not None:
                    axis.append((extent, step * low))
                    rest = [(low, step), *rest]
                    extent = 1
                else:
                    return None
            axes.append(tuple(axis))
        return None if rest else replace(self, axes=tuple(axes))

    def broadcast(self, shape: Sequence[Any]) -> Strided:
        """The tensor in a shape that it broadcasts to; repeated elements are in the same place."""
        own = (*[()] * (len(shape) - len(self.axes)), *self.axes)
        extents = map(extent_of, shape)
        axes = tuple(axis or _digits([(e, 0)]) for axis, e in zip(own, extents, strict=True))
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
        parts = digits if len(digits) > 1 else _digits([(extent, step)])
        axes = (*self.axes[:axis], parts, *self.axes[axis + 1 :])
        return Strided(axes, self.offset + begin * step)

    def step(self, axis: int) -> Extent | None:
        """How far apart the elements of an axis lie; None if it varies. It is 1 for one element."""
        digits = _joined(self.axes[axis])
        return (digits[0][1] if digits else 1) if len(digits) < 2 else None


#: Operators whose result is their operand in other axes, a part of it or repeated.
MOVES = ("relax.reshape", "relax.permute_dims", "relax.astype", "relax.expand_dims",
         "relax.squeeze", "relax.flatten", "relax.broadcast_to", "relax.strided_slice",
         "relax.repeat")  # fmt: skip


def moved(
    place: Strided, op: str, attrs: Mapping[str, Any], shape: Sequence[Any]
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
    place: Strided, op: str, attrs: Mapping[str, Any], shape: Sequence[Any]
) -> Strided | None:
    """The result of a move that keeps all elements as its operand of this shape, or None."""
    if op != "relax.permute_dims":
        return moved(place, op, attrs, shape)
    order = _order(attrs["axes"], len(place.axes))
    return place.permuted([order.index(k) for k in range(len(order))])


def _order(axes: Sequence[Any] | None, rank: int) -> list[int]:
    return [*range(rank)][::-1] if axes is None else [int(a) % rank for a in axes]


def _sliced(place: Strided, attrs: Mapping[str, Any], shape: Sequence[Any]) -> Strided | None:
    """A slice with step 1, one axis after another; ``shape`` is that of the result.

    The axes that it shortens have extents that are known when it is compiled.
    """
    sliced: Strided | None = place
    for axis, begin, step in zip(attrs["axes"], attrs["begin"], attrs["strides"], strict=True):
        k = int(axis) % len(place.axes)
        whole, extent, start = place.shape[k], extent_of(shape[k]), extent_of(begin)
        if not (isinstance(whole, int) and isinstance(extent, int) and isinstance(start, int)):
            return None
        first = start + (whole if start < 0 else 0)
        if sliced is None or extent_of(step) != 1 or not 0 <= first <= whole - extent:
            return None
        sliced = sliced.sliced(k, first, extent)
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
) -> tuple[tuple[Extent, ...], tuple[tuple[Extent, ...], ...]] | None:
    """The fewest axes that some tensors of the same elements have in common, by their digits.

    Returns:
        The extents of the axes, and the steps of each tensor along them; None if the tensors have
        no axes in common.
    """
    rest = [list(t) for t in tensors]
    columns: list[tuple[Extent, tuple[Extent, ...]]] = []  # the least significant axis first
    while any(rest):
        if not all(rest):
            return None
        last = [t[-1][0] for t in rest]
        extent = next((e for e in last if all(quotient(x, e) is not None for x in last)), None)
        if extent is None:
            return None
        steps = tuple(t[-1][1] for t in rest)
        for digits in rest:
            size, step = digits.pop()
            outer = quotient(size, extent)
            assert outer is not None
            digits += _digits([(outer, step * extent)])
        if columns and all(s == columns[-1][0] * low
                           for s, low in zip(steps, columns[-1][1], strict=True)):  # fmt: skip
            columns[-1] = columns[-1][0] * extent, columns[-1][1]
        else:
            columns.append((extent, steps))
    columns.reverse()
    return tuple(e for e, _ in columns), tuple(zip(*(s for _, s in columns), strict=True)) or tuple(
        () for _ in tensors
    )
