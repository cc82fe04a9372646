"""Loops over the axes of results, where a block loops over those of its operand.

Before: for p, c: y[p // 196, c, p % 196] = x[p, c]     a layout transform of TOPI
After:  for n, c, p: y[n, c, p] = x[196 * n + p, c]

TVM fuses only the latter with others, and rules for kernels expect it: neighbouring threads write
neighbouring elements.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from .....analysis.blocks.tir import loads, static
from .....analysis.lifting.tir.node import items
from .....analysis.support.ir.rewrite_functions import replaced_functions


def loops_by_result(mod: Any) -> Any:
    """Return the module with the loops of PrimFuncs of one block in the order of its stores.

    A block whose iterations do not store at each place exactly once stays as it was, as does one
    with a condition or that reads what it stores: the order of its iterations matters.
    """
    return replaced_functions(mod, lambda f: _by_result(f) if isinstance(f, tirx.PrimFunc) else f)


def _by_result(func: Any) -> Any:
    block = _only_block(func)
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, stores.append))
    if block is None or len(stores) != 1 or block.init is not None:
        return func
    if any(e.source.same_as(stores[0].buffer) for e in loads(func.body)):
        return func
    variables = [v.var for v in items(block.iter_vars)]
    single = [v.var for v in items(block.iter_vars) if static(v.dom.extent) == 1]
    moving, places = (
        [e for e in exprs if static(e) is None and not any(e.same_as(s) for s in single)]
        for exprs in (variables, items(stores[0].indices))
    )
    if len(moving) == len(places) and all(map(_same, moving, places)):
        return func
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    (nest,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    try:
        schedule.transform_block_layout(nest, tirx.IndexMap(variables, stores[0].indices, None))
    except RuntimeError:  # a ScheduleError: several iterations store at a place, or none does
        return func
    return _simplified(schedule.mod["main"]).with_attrs(func.attrs)


def _same(a: Any, b: Any) -> bool:
    return bool(a.same_as(b))


def _only_block(func: Any) -> Any:
    """The block of a PrimFunc that is one nest of loops around it, without condition, or None."""
    body = func.body.block.body if isinstance(func.body, tvm.s_tir.SBlockRealize) else func.body
    while isinstance(body, tirx.For):
        body = body.body
    is_whole = isinstance(body, tvm.s_tir.SBlockRealize) and static(body.predicate) == 1
    return body.block if is_whole else None


def _simplified(func: Any) -> Any:
    """The PrimFunc with quotients and remainders simplified over the ranges of its block."""
    analyzer = tvm.sym.Analyzer()
    for axis in items(_only_block(func).iter_vars):
        analyzer.bind(axis.var, axis.dom)
    rules = [(kind, lambda e, _: analyzer.simplify(e)) for kind in (tirx.FloorDiv, tirx.FloorMod)]
    return func.with_body(tvm_ffi.structural_mutate(func.body, rules))
