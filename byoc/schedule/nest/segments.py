"""Split the vector axis at guards, so that no guard varies within a vector.

    Before: for h, w: p[h, w] = if_then_else(1 <= w and w < 57 and 1 <= h, x[h - 1, w - 1], 0)
    After:  w in [0, 1): 0;   w in [1, 57): if_then_else(1 <= h, x[h - 1, w - 1], 0);   …: 0

A guard that differs between lanes would be evaluated for one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import detect_linear_equation

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import dtype_of, integer, is_guard, mentions, static, values
from ....analysis.lifting.tir.node import as_dtype
from .kernel import Kernel, KernelOutput


@dataclass(frozen=True)
class _AxisGuard:
    """A guard that holds on ``[low, high)`` of the axis if ``condition`` holds as well."""

    call: Any
    low: Any
    high: Any
    condition: Any | None

    @property
    def inside(self) -> Any:
        """The value on the range."""
        value, other = self.call.args[1], self.call.args[2]
        if self.condition is None:
            return value
        return tirx.if_then_else(self.condition, value, other)


def segments(kernel: Kernel, axis: Axis) -> list[Kernel]:
    """Split a kernel into ranges of an axis, without the guards that bound that axis."""
    guard = _guard(kernel, axis)
    if guard is None:
        return [kernel]
    other = guard.call.args[2]
    end = integer(axis.extent, axis.var) if isinstance(axis.extent, int) else axis.extent
    zero = integer(0, axis.var)
    ranges = [(zero, guard.low, other), (guard.low, guard.high, guard.inside),
              (guard.high, end, other)]  # fmt: skip
    out = []
    for low, high, value in ranges:
        part = _over(_replaced(kernel, guard.call, value), axis, low, high)
        if part is not None:
            out += segments(*part)
    return out


def filled(kernel: Kernel) -> tuple[Kernel, Kernel] | None:
    """Split a padded copy into a fill of all elements and a copy of those inside, if it is one.

    Before: p[h, w] = if_then_else(1 <= h and h < 57 and 1 <= w and w < 57, x[h - 1, w - 1], 0)
    After:  p[h, w] = 0;  p[h + 1, w + 1] = x[h, w]
    """
    if not kernel.twice or kernel.reduced or kernel.after or len(kernel.results) != 1:
        return None
    (output,) = kernel.results
    other = output.value.args[2] if is_guard(output.value) else None
    if not isinstance(other, tirx.FloatImm | tirx.IntImm):
        return None
    inside = kernel
    for place in range(len(kernel.axes)):
        value, axis = inside.results[0].value, inside.axes[place]
        guard = _ranged(value, inside, axis) if is_guard(value) else None
        if guard is None:
            continue
        part = _over(_replaced(inside, guard.call, guard.inside), axis, guard.low, guard.high)
        if part is None:
            return None
        inside, _ = part
    if is_guard(inside.results[0].value):
        return None
    return replace(kernel, results=(replace(output, value=other),), copy=False), inside


def _over(kernel: Kernel, axis: Axis, low: Any, high: Any) -> tuple[Kernel, Axis] | None:
    """Restrict a kernel to a range of an axis; None if the range is empty."""
    extent = kernel.analyzer.simplify(high - low)
    size = static(extent)
    if size is not None and size <= 0:
        return None
    var = tirx.Var(axis.var.name, dtype_of(axis.var))
    new = Axis(var, extent)
    at = values((axis.var, var + low))
    axes = tuple(new if a is axis else a for a in kernel.axes)
    return kernel.at(at, axes, kernel.reduced), new


def _replaced(kernel: Kernel, call: Any, value: Any) -> Kernel:
    def guard(expr: Any, mutator: Any) -> Any:
        same = is_guard(expr) and tvm_ffi.structural_equal(expr, call)
        return value if same else mutator.default_mutate(expr)

    def put(expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, [(tvm.ir.Call, guard)])

    return replace(
        kernel,
        after=tuple((v, put(e)) for v, e in kernel.after),
        results=tuple(KernelOutput(r.buffer, r.indices, put(r.value)) for r in kernel.results),
    )


def _guard(kernel: Kernel, axis: Axis) -> _AxisGuard | None:
    """Return the first outermost guard with conditions on the axis."""
    calls: list[Any] = []
    for expr in [*(e for _, e in kernel.after), *(r.value for r in kernel.results)]:
        tvm_ffi.structural_walk(expr, (tvm.ir.Call, calls.append))
    for call in calls:
        guard = _ranged(call, kernel, axis) if is_guard(call) else None
        if guard is not None:
            return guard
    return None


def _ranged(call: Any, kernel: Kernel, axis: Axis) -> _AxisGuard | None:
    """Return a guard's range of the axis; None unless its conditions on the axis are linear.

    The range must not depend on another axis: the loops of its part may be outside of that one.
    """
    end = integer(axis.extent, axis.var) if isinstance(axis.extent, int) else axis.extent
    low: Any = integer(0, axis.var)
    high: Any = as_dtype(end, dtype_of(axis.var))
    condition = None
    bounded = False
    for conjunct in _conjuncts(call.args[0]):
        if axis.var not in mentions(conjunct):
            condition = conjunct if condition is None else tirx.And(condition, conjunct)
            continue
        interval = _interval(conjunct, axis.var)
        others = [a.var for a in kernel.all_axes if a is not axis]
        if interval is None or any(v in mentions(conjunct) for v in others):
            return None
        bounded = True
        low = tirx.Max(low, interval[0]) if interval[0] is not None else low
        high = tirx.Min(high, interval[1]) if interval[1] is not None else high
    if not bounded:
        return None
    simplify = kernel.analyzer.simplify
    low = simplify(tirx.Min(low, as_dtype(end, dtype_of(axis.var))))
    return _AxisGuard(call, low, simplify(tirx.Max(high, low)), condition)


def _conjuncts(expr: Any) -> Iterator[Any]:
    if isinstance(expr, tirx.And):
        yield from _conjuncts(expr.a)
        yield from _conjuncts(expr.b)
    else:
        yield expr


def _interval(comparison: Any, var: Any) -> tuple[Any | None, Any | None] | None:
    """Return where a comparison linear in ``var`` holds: (first, end); None if unbounded."""
    if type(comparison) not in (tirx.LT, tirx.LE, tirx.GT, tirx.GE):
        return None
    if not dtype_of(comparison.a).startswith("int"):
        return None
    a, b = comparison.a, comparison.b
    if isinstance(comparison, (tirx.GT, tirx.GE)):
        a, b = b, a
    coefs = detect_linear_equation(a - b, [var])
    m = static(coefs[0]) if len(coefs) else None
    if not m:
        return None
    # m * var + base < 0, or <= 0, which is the same with base - 1
    base = as_dtype(coefs[1], dtype_of(var))
    if isinstance(comparison, (tirx.LE, tirx.GE)):
        base = base - integer(1, var)
    if m > 0:  # var < -base / m
        return None, tirx.FloorDiv(integer(m - 1, var) - base, integer(m, var))
    return tirx.FloorDiv(base, integer(-m, var)) + integer(1, var), None  # var > base / -m
