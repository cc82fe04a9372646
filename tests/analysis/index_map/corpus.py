"""More than 300 maps whose truth is known by how they were made."""

from __future__ import annotations

from .arithmetic_maps import large, linear, piecewise, remainders, windows
from .layout_maps import blocks, flattening, packing, reversals, rotations, swizzles, transposes
from .map_case import Case
from .symbolic_maps import symbolic, symbolic_packing

FAMILIES = (
    transposes,
    packing,
    flattening,
    blocks,
    swizzles,
    rotations,
    reversals,
    windows,
    remainders,
    piecewise,
    linear,
    large,
    symbolic,
    symbolic_packing,
)


def corpus() -> list[Case]:
    """All cases."""
    return [case for family in FAMILIES for case in family()]
