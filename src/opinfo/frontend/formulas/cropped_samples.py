"""Samples of crops of images, whose corners are those of the boxes.

For one axis of `extent` pixels, of which a box has the part from `a` to `b`, place `i` of `n` is

    (extent - 1) * a + i * (b - a) * (extent - 1) / (n - 1)     for n > 1
    (extent - 1) * (a + b) / 2                                  for n = 1

The last place is exactly `(extent - 1) * b`. Places outside of an image have a number of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx


@dataclass(frozen=True)
class CropSamples:
    """The kernel of crops.

    Attributes:
        size: The height and the width of a crop.
        nearest: Whether the nearest pixel is taken, else four are interpolated.
        outside: The number of places outside of an image.
    """

    size: tuple[int, int]
    nearest: bool
    outside: float

    def __call__(self, data: te.Tensor, boxes: te.Tensor, images: te.Tensor) -> te.Tensor:
        """Return (boxes, channels, height, width).

        Args:
            data: (images, channels, rows, columns).
            boxes: (boxes, 4), the first row and column, and the last ones, from 0 to 1.
            images: The image of each box.
        """
        dtype = data.dtype
        extents = data.shape[2:]

        def place(box: Any, axis: int, i: Any) -> Any:
            count = self.size[axis]
            first, last = boxes[box, axis], boxes[box, axis + 2]
            end = tirx.Cast(dtype, extents[axis] - 1)
            if count == 1:
                return tirx.const(0.5, dtype) * (first + last) * end
            step = (last - first) * end / tirx.const(count - 1, dtype)
            inner = first * end + tirx.Cast(dtype, i) * step
            return tirx.Select(i == count - 1, last * end, inner)

        def pixel(box: Any, c: Any, at: tuple[Any, Any]) -> Any:
            y, x = (_inside(p, n) for p, n in zip(at, extents, strict=True))
            return data[images[box], c, y, x]

        def element(box: Any, c: Any, i: Any, j: Any) -> Any:
            at = place(box, 0, i), place(box, 1, j)
            within = [tirx.all(p >= tirx.const(0, dtype), p <= tirx.Cast(dtype, n - 1))
                      for p, n in zip(at, extents, strict=True)]  # fmt: skip
            if self.nearest:
                # Halves are rounded away from zero, and no place is below it.
                value = pixel(box, c, _each(lambda p: tirx.floor(p + tirx.const(0.5, dtype)), at))
            else:
                value = self._interpolated(lambda corner: pixel(box, c, corner), at)
            return tirx.if_then_else(tirx.all(*within), value, tirx.const(self.outside, dtype))

        shape = (boxes.shape[0], data.shape[1], *self.size)
        return te.compute(shape, element, name="crops")

    def _interpolated(self, pixel: Any, at: tuple[Any, Any]) -> Any:
        low, high = _each(tirx.floor, at), _each(tirx.ceil, at)
        y, x = at[0] - low[0], at[1] - low[1]
        top, bottom = (_between(pixel((row, low[1])), pixel((row, high[1])), x)
                       for row in (low[0], high[0]))  # fmt: skip
        return _between(top, bottom, y)


def _each(function: Any, pair: tuple[Any, Any]) -> tuple[Any, Any]:
    return function(pair[0]), function(pair[1])


def _inside(place: Any, extent: Any) -> Any:
    """Return an index that is inside, also of a place that is not read, or is NaN."""
    index = tirx.min(tirx.Cast("int64", place), tirx.Cast("int64", extent - 1))
    return tirx.max(index, tirx.const(0, "int64"))


def _between(left: Any, right: Any, share: Any) -> Any:
    return left + (right - left) * share
