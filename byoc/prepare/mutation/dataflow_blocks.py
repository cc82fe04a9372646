"""Rewrite the dataflow blocks of a module one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from ....analysis.support.rewrite_functions import with_attrs


def with_dataflow_blocks(mod: Any, rewritten: Callable[[Any, Any], Any]) -> Any:
    """Return a module with its dataflow blocks rewritten; the input is not changed.

    Args:
        mod: The module.
        rewritten: Returns a block from a builder of the module and a block; the same one if it
            stays.
    """
    builder = relax.BlockBuilder(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and isinstance(func.body, relax.SeqExpr):
            builder.update_func(gvar, _function(func, lambda block: rewritten(builder, block)))
    return with_attrs(builder.get(), mod)


def _function(func: Any, rewritten: Callable[[Any], Any]) -> Any:
    blocks = [rewritten(b) if isinstance(b, relax.DataflowBlock) else b for b in func.body.blocks]
    if all(new.same_as(old) for new, old in zip(blocks, func.body.blocks, strict=True)):
        return func
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)
