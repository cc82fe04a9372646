"""Row-major order: how many elements there are, and which one an index is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .term import ONE, ZERO, Int, mul


def volume(shape: Iterable[Int]) -> Int:
    """How many elements a buffer of this shape has: the product of the extents."""
    out = ONE
    for e in shape:
        out = mul(out, e)
    return out


def flat(index: Sequence[Int], shape: Sequence[Int]) -> Int:
    """The row-major offset of an element."""
    out = ZERO
    for i, e in zip(index, shape, strict=True):
        out = mul(out, e) + i
    return out
