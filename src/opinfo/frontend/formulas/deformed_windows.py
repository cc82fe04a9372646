"""The elements that a deformable convolution multiplies, for each place of its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx


@dataclass(frozen=True)
class DeformedWindows:
    """The window of each place in two dimensions, whose elements are displaced.

    Attributes:
        kernel: The extents of the window.
        strides: Its steps.
        dilations: The distances of its elements.
        before: The padding at the starts.
        groups: The groups of channels that share displacements.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    before: Sequence[Any]
    groups: int

    def __call__(self, data: Any, offset: Any, *mask: Any) -> Any:
        """Return a tensor (batch, channels, window, height, width).

        Elements are interpolated between the nearest four; those outside of the data are 0.

        Args:
            data: Images, channels first.
            offset: The displacements: batch, groups x window x 2, height, width.
            mask: Nothing, or factors: batch, groups x window, height, width.
        """
        batch, channels = data.shape[:2]
        count = self.kernel[0] * self.kernel[1]
        shared = tirx.indexdiv(channels, self.groups)

        def element(n: Any, c: Any, k: Any, y: Any, x: Any) -> Any:
            row = tirx.indexdiv(c, shared) * count + k
            window = (tirx.indexdiv(k, self.kernel[1]), tirx.indexmod(k, self.kernel[1]))
            places = [
                self._start(a, at, step, offset.dtype) + offset[n, row * 2 + a, y, x]
                for a, (at, step) in enumerate(zip((y, x), window, strict=True))
            ]
            value = _between(data, n, c, places)
            return value * mask[0][n, row, y, x] if mask else value

        shape = (batch, channels, count, *offset.shape[2:])
        return te.compute(shape, element, name="deformed_windows")

    def _start(self, axis: int, at: Any, step: Any, dtype: Any) -> Any:
        """Return where an element of a window is before it is displaced."""
        start = at * self.strides[axis] - self.before[axis] + step * self.dilations[axis]
        return tirx.Cast(dtype, start)


def _between(data: Any, n: Any, c: Any, places: Sequence[Any]) -> Any:
    """Return the data at a place between four elements."""
    axes = [_around(p, extent) for p, extent in zip(places, data.shape[2:], strict=True)]
    zero = tirx.const(0.0, data.dtype)
    terms = [
        row_weight * column_weight
        * tirx.if_then_else(tirx.all(row_inside, column_inside), data[n, c, row, column], zero)
        for row_weight, row, row_inside in axes[0]
        for column_weight, column, column_inside in axes[1]
    ]  # fmt: skip
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _around(place: Any, extent: Any) -> list[tuple[Any, Any, Any]]:
    """Return weight, index and presence of the elements before and after a place."""
    dtype = place.ty.dtype
    # Beyond these bounds nothing is inside; an index of any displacement would overflow.
    place = tirx.max(place, tirx.const(-2.0, dtype))
    place = tirx.min(place, tirx.Cast(dtype, extent + 1))
    low = tirx.floor(place)
    share, one = place - low, tirx.const(1.0, dtype)
    first = tirx.Cast("int64", low)
    return [
        (weight, index, tirx.all(index >= 0, index < extent))
        for weight, index in ((one - share, first), (share, first + tirx.const(1, "int64")))
    ]
