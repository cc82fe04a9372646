"""How the accesses of a loop nest move through memory as its axes do."""

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
    """An access: ``flat`` is its place in the buffer, ``steps`` how far each axis moves it.

    A step is an expression, None where the place is not linear in the axis.
    """

    buffer: Any
    flat: Any
    steps: NodeDict[Any]

    def step(self, axis: Any) -> int | None:
        """The step of an axis if it is a number; -1 if it is symbolic, None if not linear."""
        found = self.steps.get(axis)
        if found is None:
            return None
        known = static(found)
        return -1 if known is None else known


def access(
    buffer: Any, indices: Sequence[Any], axes: Sequence[Any], analyzer: Any
) -> StridedAccess:
    """The access in terms of some axes."""
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
    """Whether two steps are equal, proved."""
    if a is None or b is None:
        return False
    x, y = static(a), static(b)
    if x is not None and y is not None:
        return x == y
    return bool(analyzer.can_prove_equal(a, b))


def analyzer_of(axes: Sequence[Any], sizes: SymbolicSizes = UNSAID) -> Any:
    """An analyzer that knows the domains of axes, and where sizes are."""
    found = tvm.sym.Analyzer()
    for v, values in sizes.ranges():
        found.bind(v, values, allow_override=True)
    for a in axes:
        zero = tirx.IntImm(str(a.var.ty.dtype), 0)
        found.bind(a.var, tvm.ir.Range.from_min_extent(zero, a.extent), allow_override=True)
    return found
