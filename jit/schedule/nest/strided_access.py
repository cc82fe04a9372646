"""Strides of the accesses of a loop nest along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.sym import detect_linear_equation

from ....analysis.lifting.tir.node import NodeDict, items
from .symbolic_sizes import UNSAID, SymbolicSizes
from .tir import mentions, static


@dataclass(frozen=True)
class StridedAccess:
    """An access: its ``flat`` index in the buffer, and the stride ``steps`` of each axis.

    A stride is an expression, or None if the index is not linear in the axis.
    """

    buffer: Any
    flat: Any
    steps: NodeDict[Any]

    def step(self, axis: Any) -> int | None:
        """Return the stride of an axis; -1 if it is symbolic, None if the index is not linear."""
        found = self.steps.get(axis)
        if found is None:
            return None
        known = static(found)
        return -1 if known is None else known


def access(
    buffer: Any, indices: Sequence[Any], axes: Sequence[Any], analyzer: Any
) -> StridedAccess:
    """Return an access with its strides along the axes."""
    place: Any = None
    for i, extent in zip(indices, items(buffer.ty.shape), strict=True):
        place = i if place is None else place * extent + i
    if place is None:
        place = tirx.IntImm("int64", 0)
    place = analyzer.simplify(place)
    steps: NodeDict[Any] = NodeDict()
    all_of = detect_linear_equation(place, list(axes)) if axes else []
    if len(all_of):
        for a, c in zip(axes, items(all_of), strict=False):
            steps[a] = c
        return StridedAccess(buffer, place, steps)
    used = mentions(place)
    for a in axes:
        if a not in used:
            steps[a] = tirx.IntImm(str(a.ty.dtype), 0)
            continue
        one = detect_linear_equation(place, [a])
        steps[a] = one[0] if len(one) else None
    return StridedAccess(buffer, place, steps)


def same(a: Any, b: Any, analyzer: Any) -> bool:
    """Return whether two strides are provably equal."""
    if a is None or b is None:
        return False
    x, y = static(a), static(b)
    if x is not None and y is not None:
        return x == y
    return bool(analyzer.can_prove_equal(a, b))


def analyzer_of(axes: Sequence[Any], sizes: SymbolicSizes = UNSAID) -> Any:
    """Return an analyzer with the domains of axes and the ranges of sizes."""
    found = tvm.sym.Analyzer()
    for v, values in sizes.ranges():
        found.bind(v, values, allow_override=True)
    for a in axes:
        zero = tirx.IntImm(str(a.var.ty.dtype), 0)
        found.bind(a.var, tvm.ir.Range.from_min_extent(zero, a.extent), allow_override=True)
    return found
