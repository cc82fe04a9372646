"""Row-major order: the number of elements, and the offset of an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .term import ONE, ZERO, Int, mul


def volume(shape: Iterable[Int]) -> Int:
    """Return the number of elements of a buffer: the product of the extents."""
    out = ONE
    for poly in shape:
        out = mul(out, poly)
    return out


def flat(index: Sequence[Int], shape: Sequence[Int]) -> Int:
    """Return the row-major offset of an element."""
    out = ZERO
    for coordinate, extent in zip(index, shape, strict=True):
        out = mul(out, extent) + coordinate
    return out
