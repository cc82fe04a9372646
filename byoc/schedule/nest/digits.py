"""Split axes at the digits in which reductions read them, as of packed operands.

Before: for j in range(128), k: out[j] += x[k] * w[j // 64, k, j % 64]
After:  for a in range(2), b in range(64), k: out[64 * a + b] += x[k] * w[a, k, b]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import dtype_of, integer, static, values
from ....analysis.lifting.tir.node import substitute
from .kernel import Kernel, Part

DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def split_digits(part: Part) -> Part:
    """Return a reduction over the digits of its axes; other parts are returned unchanged."""
    if not isinstance(part, Kernel) or not part.reduced:
        return part
    for axis in part.axes:
        if (size := _size(part, axis)) is not None:
            part = _split(part, axis, size)
    return part


def _size(kernel: Kernel, axis: Axis) -> int | None:
    """Return the only divisor of an axis in the reads of a reduction, if it divides the extent."""
    sizes: set[int | None] = set()

    def note(expr: Any) -> None:
        if expr.a.same_as(axis.var):
            sizes.add(static(expr.b))

    for expr in [*(a.update for a in kernel.accumulators), *(e for _, e in kernel.before)]:
        tvm_ffi.structural_walk(expr, (DIVISIONS, note))
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or axis.static is None or not 1 < size < axis.static:
        return None
    return size if axis.static % size == 0 else None


def _split(kernel: Kernel, axis: Axis, size: int) -> Kernel:
    high, low = (tirx.Var(f"{axis.var.name}_{k}", dtype_of(axis.var)) for k in ("panel", "column"))
    count = integer((axis.static or 0) // size, axis.var)
    digits = Axis(high, count), Axis(low, integer(size, axis.var))
    whole = values((axis.var, high * integer(size, axis.var) + low))

    def division(expr: Any, mutator: Any) -> Any:
        if expr.a.same_as(axis.var) and static(expr.b) == size:
            return high if isinstance(expr, tirx.FloorDiv) else low
        return mutator.default_mutate(expr)

    def put(expr: Any) -> Any:
        return substitute(tvm_ffi.structural_mutate(expr, [(DIVISIONS, division)]), whole)

    axes = [d for a in kernel.axes for d in (digits if a is axis else (a,))]
    return replace(kernel.mapped(put), axes=tuple(axes))
