"""Extents of physical buffers, as numbers or terms."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.terms.term import Int, integer
from .layout import Layout


def literal(shape: Sequence[Int]) -> tuple[Int | int, ...]:
    """The extents, with constants as numbers."""
    return tuple(e if e.const is None else e.const for e in shape)


def term(extent: Int | int) -> Int:
    return extent if isinstance(extent, Int) else integer(extent)


def physical(shape: Sequence[Int], layout: Layout) -> tuple[Int, ...]:
    return tuple(map(term, layout.physical(literal(shape))))
