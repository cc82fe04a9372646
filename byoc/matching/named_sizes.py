"""Recognise PrimFuncs whose sizes are computed from others: over variables for such sizes.

Before: def f(x: T.Buffer((b * (h * w + 1), 768)), y: T.Buffer((b, h * w + 1, 768)))
After:  def f(x: T.Buffer((b * n, 768)),           y: T.Buffer((b, n, 768)))

What is proved for every ``n`` holds for the ``n`` of the callers. A PrimFunc stays as it was if it
needs to know how a size is computed, as a concatenation does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.tir import mentions
from ...analysis.lifting.tir.node import NodeDict, items, substitute
from ..patterns.extents.symbolic_extents import (
    Extent,
    SymbolicExtent,
    expression,
    extent_of,
    quotient,
)


def with_named_sizes(func: Any) -> tuple[Any, NodeDict[Any]] | None:
    """The PrimFunc with variables, and their sizes; None if it has none to name, or needs one.

    Factors of sizes become variables, or else whole sizes.
    """
    if not hasattr(func.body, "block"):
        return None
    tensors = [p for p in items(func.params) if is_buffer_var(p)]
    buffers = [*tensors, *items(func.body.block.alloc_buffers)]
    extents = [extent_of(e) for b in buffers for e in items(b.ty.shape)]
    factors = list(dict.fromkeys(f for e in extents for f in computed(e)))
    named = _with_variables(func, tensors, buffers, factors)
    if named is not None or (not factors and len(tensors) == len(func.params)):
        return named
    whole = [e for e in extents if isinstance(e, SymbolicExtent) and not e.is_variable]
    return _with_variables(func, tensors, buffers, list(dict.fromkeys(whole)))


def _with_variables(
    func: Any, tensors: Sequence[Any], buffers: Sequence[Any], sizes: Sequence[SymbolicExtent]
) -> tuple[Any, NodeDict[Any]] | None:
    """The PrimFunc with variables for sizes; None if it mentions what they are computed from."""
    if not sizes:
        return None
    fresh = {size: tirx.Var(f"size_{k}", "int64") for k, size in enumerate(sizes)}
    renamed: NodeDict[Any] = NodeDict()
    for buffer in buffers:
        shape = [_renamed(e, fresh) for e in items(buffer.ty.shape)]
        renamed[buffer] = tirx.decl_buffer(shape, buffer.ty.dtype, buffer.name, layout=None)
    params = [renamed[p] if p in renamed else p for p in items(func.params)]
    plain = [e for p in tensors for e in items(renamed[p].ty.shape) if isinstance(e, tirx.Var)]
    if not all(any(v.same_as(e) for e in plain) for v in fresh.values()):
        return None
    body = _renamed(substitute(func.body, renamed), fresh)
    scalars = [p for p in items(func.params) if not is_buffer_var(p)]
    inside = [v for size in sizes for v in _variables(size)]
    gone = [v for v in (*scalars, *inside) if not any(v.same_as(e) for e in plain)]
    left = NodeDict[None]()
    for part in (body, *(e for buffer in renamed.values() for e in items(buffer.ty.shape))):
        for var, _ in mentions(part).items():
            left[var] = None
    if any(v in left for v in gone):
        return None
    sizes_of = NodeDict[Any]()
    for size, var in fresh.items():
        sizes_of[var] = expression(size)
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs), sizes_of


def _variables(size: SymbolicExtent) -> list[Any]:
    symbols = [s for monomial, _ in size.terms for s in monomial]
    return [v for s in symbols for v in tirx.analysis.undefined_vars(s.expr)]


def computed(extent: Extent) -> Iterator[SymbolicExtent]:
    """The factors of an extent that are not variables: sums, and symbols that are quotients."""
    if isinstance(extent, int):
        return
    common = [s for s in extent.terms[0][0] if all(s in m for m, _ in extent.terms)]
    rest: Extent | None = extent
    for symbol in common:
        factor = SymbolicExtent((((symbol,), 1),))
        divided = None if rest is None else quotient(rest, factor)
        if divided is not None:
            rest = divided
            if not isinstance(symbol.expr, tirx.Var):
                yield factor
    if isinstance(rest, SymbolicExtent):
        yield SymbolicExtent(
            tuple((m, c // gcd(*(c for _, c in rest.terms))) for m, c in rest.terms)
        )


def _multiple(times: Extent, var: Any) -> Any:
    """A variable times a monomial."""
    if isinstance(times, int):
        return var if times == 1 else var * times
    ((symbols, coefficient),) = times.terms
    for symbol in symbols:
        var = var * symbol.expr
    return var if coefficient == 1 else var * coefficient


def _renamed(node: Any, fresh: dict[SymbolicExtent, Any]) -> Any:
    """A statement or expression with variables in place of sizes."""

    def replace(expr: Any, mutator: Any) -> Any:
        extent = extent_of(expr) if str(expr.ty.dtype).startswith("int") else 0
        for size, var in fresh.items() if isinstance(extent, SymbolicExtent) else ():
            times = quotient(extent, size)
            if isinstance(times, int) or (times is not None and len(times.terms) == 1):
                return _multiple(times, var)
        return mutator.default_mutate(expr)

    rules = [(kind, replace) for kind in (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv)]
    return tvm_ffi.structural_mutate(node, rules)
