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

from ....analysis.lifting.tir.node import as_dtype
from .kernel import Kernel, KernelOutput
from .program import Axis
from .tir import dtype_of, integer, is_guard, mentions, static, values


@dataclass(frozen=True)
class _Guard:
    """A guard that holds on ``[low, high)`` of the axis if ``rest`` holds as well."""

    call: Any
    low: Any
    high: Any
    rest: Any | None


def segments(kernel: Kernel, axis: Axis) -> list[Kernel]:
    """Split a kernel into ranges of an axis, none of which has guards of that axis alone."""
    found = _guard(kernel, axis)
    if found is None:
        return [kernel]
    a, b = found.call.args[1], found.call.args[2]
    inside = a if found.rest is None else tirx.if_then_else(found.rest, a, b)
    end = integer(axis.extent, axis.var) if isinstance(axis.extent, int) else axis.extent
    zero = integer(0, axis.var)
    ranges = [(zero, found.low, b), (found.low, found.high, inside), (found.high, end, b)]
    out = []
    for low, high, value in ranges:
        part = _over(_replaced(kernel, found.call, value), axis, low, high)
        if part is not None:
            out += segments(*part)
    return out


def _over(kernel: Kernel, axis: Axis, low: Any, high: Any) -> tuple[Kernel, Axis] | None:
    """Restrict a kernel to a range of an axis; None if the range is empty."""
    extent = kernel.analyzer.simplify(high - low)
    known = static(extent)
    if known is not None and known <= 0:
        return None
    v = tirx.Var(axis.var.name, dtype_of(axis.var))
    new = Axis(v, extent)
    at = values((axis.var, v + low))
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


def _guard(kernel: Kernel, axis: Axis) -> _Guard | None:
    """Return the first outermost guard with conditions on the axis."""
    calls: list[Any] = []
    for expr in [*(e for _, e in kernel.after), *(r.value for r in kernel.results)]:
        tvm_ffi.structural_walk(expr, (tvm.ir.Call, calls.append))
    for call in calls:
        found = _ranged(call, kernel, axis) if is_guard(call) else None
        if found is not None:
            return found
    return None


def _ranged(call: Any, kernel: Kernel, axis: Axis) -> _Guard | None:
    end = integer(axis.extent, axis.var) if isinstance(axis.extent, int) else axis.extent
    low: Any = integer(0, axis.var)
    high: Any = as_dtype(end, dtype_of(axis.var))
    rest = None
    some = False
    for c in _conjuncts(call.args[0]):
        if axis.var not in mentions(c):
            rest = c if rest is None else tirx.And(rest, c)
            continue
        bound = _bound(c, axis.var)
        if bound is None:
            return None
        some = True
        low = tirx.Max(low, bound[0]) if bound[0] is not None else low
        high = tirx.Min(high, bound[1]) if bound[1] is not None else high
    if not some:
        return None
    simplify = kernel.analyzer.simplify
    low = simplify(tirx.Min(low, as_dtype(end, dtype_of(axis.var))))
    return _Guard(call, low, simplify(tirx.Max(high, low)), rest)


def _conjuncts(expr: Any) -> Iterator[Any]:
    if isinstance(expr, tirx.And):
        yield from _conjuncts(expr.a)
        yield from _conjuncts(expr.b)
    else:
        yield expr


def _bound(c: Any, v: Any) -> tuple[Any | None, Any | None] | None:
    """Return where a comparison linear in ``v`` holds: (first, end); None if unbounded."""
    if type(c) not in (tirx.LT, tirx.LE, tirx.GT, tirx.GE):
        return None
    if not dtype_of(c.a).startswith("int"):
        return None
    a, b = (c.a, c.b) if isinstance(c, (tirx.LT, tirx.LE)) else (c.b, c.a)
    found = detect_linear_equation(a - b, [v])
    m = static(found[0]) if len(found) else None
    if not m:
        return None
    # m * v + base < 0, or <= 0 and then the same with base - 1
    base = as_dtype(found[1], dtype_of(v))
    if isinstance(c, (tirx.LE, tirx.GE)):
        base = base - integer(1, v)
    if m > 0:  # v < -base / m
        return None, tirx.FloorDiv(integer(m - 1, v) - base, integer(m, v))
    return tirx.FloorDiv(base, integer(-m, v)) + integer(1, v), None  # v > base / -m
