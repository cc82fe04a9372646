"""Rewrite the dataflow blocks of a module one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from ....analysis.support.ir.rewrite_functions import with_attrs
from ....layout.graph.side_effects import SideEffects
from .mutate import may_reorder


def with_dataflow_blocks(mod: Any, rewritten: Callable[[Any, Any], Any]) -> Any:
    """Return a module with its dataflow blocks rewritten; the input is not changed.

    Functions stay of which `mutated` says so: a dataflow block may contain an update in place.

    Args:
        mod: The module.
        rewritten: Returns a block from a builder of the module and a block; the same one if it
            stays.
    """
    builder, effects = relax.BlockBuilder(mod), SideEffects(mod)
    for gvar, func in mod.functions_items():
        blocks = isinstance(func, relax.Function) and isinstance(func.body, relax.SeqExpr)
        if blocks and may_reorder(effects, func):
            builder.update_func(gvar, _function(func, lambda block: rewritten(builder, block)))
    return with_attrs(builder.get(), mod)


def _function(func: Any, rewritten: Callable[[Any], Any]) -> Any:
    blocks = [rewritten(b) if isinstance(b, relax.DataflowBlock) else b for b in func.body.blocks]
    if all(new.same_as(old) for new, old in zip(blocks, func.body.blocks, strict=True)):
        return func
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)
