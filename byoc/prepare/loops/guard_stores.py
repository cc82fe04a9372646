"""Guard stores of opaque code to buffers that may have no elements.

    Before: for j in T.parallel(4):                y[0, j] = x[0, j]
                                                   for k in range(n - 1):  y[k + 1, j] = …
    After:  for j in T.parallel(4):  if 0 < n:     y[0, j] = x[0, j]
                                                   for k in range(n - 1):  y[k + 1, j] = …

TVM's scans write the first element of each row before their loop over the others. Of no rows, that
was written to memory of something else. Blocks with axes stay: their loops are over what they
write.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import integer, mentions, static
from ....analysis.lifting.tir.node import items
from ....analysis.support.tvm_compat import SBlock, sym


def guard_stores(mod: Any) -> Any:
    """Return the module with such stores guarded; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and (other := guarded(func)) is not func:
            out.update_func(gvar, other)
    return out


def guarded(func: Any) -> Any:
    """Return a PrimFunc with such stores guarded, or the same one if it has none."""
    extents: list[Any] = []  # of the loops around a statement

    def enter(loop: Any, mutator: Any) -> Any:
        extents.append(loop.extent)
        out = mutator.default_mutate(loop)
        extents.pop()
        return out

    def visit(block: Any, mutator: Any) -> Any:
        return block if items(block.iter_vars) else mutator.default_mutate(block)

    def guard(store: Any, mutator: Any) -> Any:
        condition = None
        for extent in _maybe_zero(store.buffer.ty.shape, extents):
            holds = integer(0, extent) < extent
            condition = holds if condition is None else tirx.And(condition, holds)
        return store if condition is None else tirx.IfThenElse(condition, store, None)

    rules = [(tirx.For, enter), (SBlock, visit), (tirx.BufferStore, guard)]
    body = tvm_ffi.structural_mutate(func.body, rules)
    return func if body.same_as(func.body) else func.with_body(body)


def _maybe_zero(shape: Any, loops: list[Any]) -> list[Any]:
    """Return the extents that are not proved to be positive inside of loops; sizes are from 0."""
    shape = [extent for extent in items(shape) if not static(extent)]
    if not shape:
        return []
    analyzer = sym.Analyzer()
    for extent in [*shape, *loops]:
        for var, _ in mentions(extent).items():
            analyzer.update(var, sym.ConstIntBound(0, sym.ConstIntBound.POS_INF), True)
    known = [extent > 0 for extent in loops if static(extent) is None]
    return [e for e in shape if not _follows(analyzer, e > 0, known)]


def _follows(analyzer: Any, goal: Any, known: list[Any]) -> bool:
    """Return whether a condition holds where others do."""
    if not known:
        return bool(analyzer.can_prove(goal))
    with analyzer.constraint_scope(known[0]):
        return _follows(analyzer, goal, known[1:])
