"""Axes in the order in which results are stored, whatever the order of a block's loops.

Before: for n, c, h, w: y[n, h, w, c] = x[n, c, h, w]     the layout transform of TOPI: x's order
After:  for n, h, w, c: y[n, h, w, c] = x[n, c, h, w]     as rules for kernels expect
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm

from ......analysis.blocks.loop_steps import Axis, LoopStep
from ......analysis.blocks.strides import strided_access
from ......analysis.blocks.tir import static


def in_stored_order(step: LoopStep) -> LoopStep:
    """Return a step with its spatial axes from the largest to the smallest stride of its result.

    A step of several results, or with one that is not linear in its axes, is returned unchanged.
    """
    moving = [a for a in step.spatial if static(a.extent) != 1]
    strides = _strides(step, moving)
    if strides is None or strides == sorted(strides, reverse=True):
        return step
    by_stride = sorted(zip(strides, range(len(moving)), strict=True), reverse=True)
    ordered = iter([moving[k] for _, k in by_stride])
    slots = {id(a) for a in moving}
    return replace(step, axes=tuple(next(ordered) if id(a) in slots else a for a in step.axes))


def _strides(step: LoopStep, axes: list[Axis]) -> list[int] | None:
    """The strides of a step's result along axes: distinct and positive, or None."""
    if len(step.updates) != 1 or len(axes) < 2:
        return None
    (update,), variables = step.updates, [a.var for a in axes]
    access = strided_access(update.buffer, update.indices, variables, tvm.sym.Analyzer())
    found: list[Any] = [access.step(var) for var in variables]
    if any(s is None or s <= 0 for s in found) or len(set(found)) < len(found):
        return None
    return found
