"""Adjacent axes that move through memory as one become one.

    for i, j: out[i, j] = x[i, j] + c      for f: out[f // m, f % m] = x[f // m, f % m] + c

TVM sees that the place of ``x[f // m, f % m]`` in memory is ``f``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from .access import Access, same
from .kernel import Kernel
from .program import Axis
from .tir import as_dtype, dtype_of, integer, static, values


def collapsed(kernel: Kernel) -> Kernel:
    """The kernel over as few axes as can be."""
    kernel = _units(kernel)
    for reduced in (False, True):
        k = len(kernel.reduced if reduced else kernel.axes) - 2
        while k >= 0:
            axes = kernel.reduced if reduced else kernel.axes
            if _together(kernel, axes[k], axes[k + 1]):
                kernel = _joined(kernel, k, reduced)
            k -= 1
    return kernel


def _units(kernel: Kernel) -> Kernel:
    """Without axes of one iteration."""
    units = [a for a in kernel.all_axes if a.static == 1]
    if not units:
        return kernel
    at = values(*((a.var, integer(0, a.var)) for a in units))
    axes, reduced = (
        tuple(a for a in group if a.static != 1) for group in (kernel.axes, kernel.reduced)
    )
    if kernel.reduced and not reduced:  # a sum of one element is still a sum
        reduced = kernel.reduced[:1]
        at = values(*((a.var, integer(0, a.var)) for a in units if a is not reduced[0]))
    return kernel.at(at, axes, reduced)


def _together(kernel: Kernel, a: Axis, b: Axis) -> bool:
    if a.var in kernel.spoken or b.var in kernel.spoken:
        return False
    every = (*kernel.reads, *kernel.late, *kernel.writes)
    return all(_follows(x, a, b, kernel.analyzer) for x in every)


def _follows(x: Access, a: Axis, b: Axis, analyzer: Any) -> bool:
    """Whether a step of ``a`` is as far as all of ``b``."""
    outer, inner = x.steps.get(a.var), x.steps.get(b.var)
    if outer is None or inner is None:
        return False
    return same(outer, inner * as_dtype(_extent(b), dtype_of(inner)), analyzer)


def _extent(a: Axis) -> Any:
    return integer(a.extent, a.var) if isinstance(a.extent, int) else a.extent


def _joined(kernel: Kernel, k: int, reduced: bool) -> Kernel:
    """Axes k and k + 1 as one."""
    axes = list(kernel.reduced if reduced else kernel.axes)
    a, b = axes[k], axes[k + 1]
    kind = dtype_of(b.var)
    width = as_dtype(_extent(b), kind)
    extent = _extent(a) * width
    v = tirx.Var("f", kind)
    known = static(extent)
    new = Axis(v, extent if known is None else integer(known, v), a.reduced)
    axes[k : k + 2] = [new]
    at = values((a.var, as_dtype(tirx.FloorDiv(v, width), dtype_of(a.var))),
                (b.var, tirx.FloorMod(v, width)))  # fmt: skip
    if reduced:
        return replace(kernel.at(at, kernel.axes, tuple(axes)))
    return kernel.at(at, tuple(axes), kernel.reduced)
