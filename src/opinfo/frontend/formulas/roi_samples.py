"""Regions of interest by the largest weighted corner of their samples, as ONNX has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from .float_extrema import extremum


@dataclass(frozen=True)
class LargestCorners:
    """The largest weighted corner of the samples in each bin of a region.

    Attributes:
        size: The bins of a region, vertically and horizontally.
        ratio: Samples of a bin along an axis; 0 for as many as there are elements.
        least: The least extent of a region.
    """

    size: tuple[int, int]
    ratio: int
    least: float

    def __call__(self, data: Any, rois: Any, images: Any) -> Any:
        """Return a tensor (regions, channels, bins, bins); that of a bin without samples is 0.

        Args:
            data: Images, channels first.
            rois: The left, upper, right and lower bound of each region, in elements.
            images: The image of each region.
        """
        counts = te.compute((rois.shape[0], 2), lambda i, k: self._count(rois, i, k), name="counts")
        shape = (rois.shape[0], data.shape[1], *self.size)

        def largest(i: Any, c: Any, *bins: Any) -> Any:
            steps = [te.reduce_axis((0, counts[i, k]), name=f"r{k}") for k in range(2)]
            places = [self._place(rois, counts, i, k, bins[k], steps[k]) for k in range(2)]
            return extremum(True)(_corner(data, images[i], c, places), axis=steps)

        best = te.compute(shape, largest, name="largest")
        zero = tirx.const(0.0, data.dtype)
        return te.compute(
            shape,
            lambda i, c, y, x: tirx.Select(
                tirx.all(counts[i, 0] > 0, counts[i, 1] > 0), best[i, c, y, x], zero
            ),
            name="roi_align",
        )

    def _extent(self, rois: Any, i: Any, k: int) -> Any:
        """Return the extent of a bin along an axis, 0 for the vertical one."""
        extent = rois[i, 3 - k] - rois[i, 1 - k]
        if self.least:
            extent = tirx.max(extent, tirx.const(self.least, rois.dtype))
        return extent / tirx.const(float(self.size[k]), rois.dtype)

    def _count(self, rois: Any, i: Any, k: Any) -> Any:
        if self.ratio:
            return tirx.const(self.ratio, "int32")
        extent = tirx.Select(k == 0, self._extent(rois, i, 0), self._extent(rois, i, 1))
        return tirx.max(tirx.Cast("int32", tirx.ceil(extent)), tirx.const(0, "int32"))

    def _place(self, rois: Any, counts: Any, i: Any, k: int, at: Any, step: Any) -> Any:
        """Return where a sample of a bin is along an axis."""
        dtype = rois.dtype
        extent = self._extent(rois, i, k)
        start = rois[i, 1 - k] + tirx.Cast(dtype, at) * extent
        inside = tirx.Cast(dtype, step) + tirx.const(0.5, dtype)
        return start + inside * extent / tirx.Cast(dtype, counts[i, k])


def _corner(data: Any, image: Any, channel: Any, places: Any) -> Any:
    """Return the largest of the four weighted elements around a place, 0 outside of the image."""
    axes = [_around(place, extent, data.dtype)
            for place, extent in zip(places, data.shape[2:], strict=True)]  # fmt: skip
    terms = [
        rows[0] * columns[0] * data[image, channel, rows[1], columns[1]]
        for rows in axes[0] for columns in axes[1]
    ]  # fmt: skip
    largest = terms[0]
    for term in terms[1:]:
        largest = tirx.max(largest, term)
    outside = tirx.any(*(tirx.any(p < tirx.const(-1.0, p.ty.dtype), p > tirx.Cast(p.ty.dtype, n))
                         for p, n in zip(places, data.shape[2:], strict=True)))  # fmt: skip
    return tirx.if_then_else(outside, tirx.const(0.0, data.dtype), largest)


def _around(place: Any, extent: Any, dtype: Any) -> list[tuple[Any, Any]]:
    """Return the weights and the indices of the elements before and after a place."""
    zero, last = tirx.const(0.0, place.ty.dtype), tirx.Cast(place.ty.dtype, extent - 1)
    inside = tirx.min(tirx.max(place, zero), last)
    low = tirx.Cast("int64", tirx.floor(inside))
    share = tirx.Cast(dtype, inside - tirx.floor(inside))
    high = tirx.min(low + tirx.const(1, "int64"), tirx.Cast("int64", extent - 1))
    return [(tirx.const(1.0, dtype) - share, low), (share, high)]
