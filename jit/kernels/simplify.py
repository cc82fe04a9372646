"""Simplify the indices of functions with symbolic shapes by the ranges of their axes.

    Before: for i, j in grid(n, 256):  y[0, i, j] = x[(j // 256 + 0 * n + i) % n, j % 256]
    After:  for i, j in grid(n, 256):  y[0, i, j] = x[i, j]

TVM classifies the first form as opaque and fuses it with nothing, so each reshape next to a
transpose would remain a separate call.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from ...analysis.blocks.loop_steps import Axis
from ...analysis.blocks.tir import integer
from ...analysis.blocks.tir import static as number
from ...analysis.lifting.tir.node import items
from ...byoc.dims.symbolic_dims import static
from ...byoc.schedule.nest.strided_access import analyzer_of

DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def simplified(mod: Any) -> Any:
    """Return the module with its symbolic PrimFuncs simplified; ``mod`` is not modified."""
    out = mod.clone()
    for gvar, func in mod.functions.items():
        if isinstance(func, tirx.PrimFunc) and not static(func):
            out.update_func(gvar, tvm_ffi.structural_mutate(func, [(s_tir.SBlock, _block)]))
    return out


def _block(block: Any, mutator: Any) -> Any:
    """Simplify by the block's own axes only: their domains hold wherever the block runs."""
    block = mutator.default_mutate(block)
    axes = items(block.iter_vars)
    if not axes or any(number(v.dom.min) != 0 for v in axes):
        return block
    analyzer = analyzer_of([Axis(v.var, v.dom.extent) for v in axes])
    return tvm_ffi.structural_map(block, (DIVISIONS, lambda expr: _simple(expr, analyzer)))


def _simple(expr: Any, analyzer: Any) -> Any:
    """Simplify ``(i * n + j) % n`` for j below a symbolic n, which TVM does not."""
    if number(expr.b) is not None:
        return analyzer.simplify(expr)
    zero = integer(0, expr)
    quotient = remainder = zero
    for term in _terms(expr.a):
        factor = _over(term, expr.b)
        quotient, remainder = (
            (quotient, remainder + term) if factor is None else (quotient + factor, remainder)
        )
    remainder = analyzer.simplify(remainder)
    if not analyzer.can_prove(tirx.And(remainder >= zero, remainder < expr.b)):
        return analyzer.simplify(expr)
    return remainder if isinstance(expr, tirx.FloorMod) else analyzer.simplify(quotient)


def _terms(expr: Any) -> list[Any]:
    return [*_terms(expr.a), *_terms(expr.b)] if isinstance(expr, tirx.Add) else [expr]


def _over(expr: Any, divisor: Any) -> Any | None:
    """Divide a product by one of its factors; None if the divisor is not a factor."""
    if not isinstance(expr, tirx.Mul):
        return None
    same = tvm_ffi.structural_equal
    return expr.a if same(expr.b, divisor) else expr.b if same(expr.a, divisor) else None
