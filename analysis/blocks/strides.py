"""Strides of the accesses of a loop nest along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ..lifting.tir.node import NodeDict, items
from ..support.tvm_compat import sym
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
        stride = self.steps.get(axis)
        if stride is None:
            return None
        value = static(stride)
        return -1 if value is None else value


def strided_access(
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
    all_coefs = sym.detect_linear_equation(place, list(axes)) if axes else []
    if len(all_coefs):
        for axis, coef in zip(axes, items(all_coefs), strict=False):
            steps[axis] = coef
        return StridedAccess(buffer, place, steps)
    used = mentions(place)
    for axis in axes:
        if axis not in used:
            steps[axis] = tirx.IntImm(str(axis.ty.dtype), 0)
            continue
        coefs = sym.detect_linear_equation(place, [axis])
        steps[axis] = coefs[0] if len(coefs) else None
    return StridedAccess(buffer, place, steps)
