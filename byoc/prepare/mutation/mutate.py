"""Apply a mutator to the Relax functions of a module, and ask which operator a call is of."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.ir import Op as IrOp

from ....analysis.support.ir.rewrite_functions import with_attrs
from ....layout.graph.side_effects import Effect, SideEffects


def mutated(mod: Any, writer: Any, *, constants: bool = False) -> Any:
    """The module with its Relax functions mutated, and its attributes; the input is not changed.

    A function with an impure call stays: the call may write into what a mutated one reads later. So
    does one with an update in place of a value that is read before it.

    Args:
        mod: The module.
        writer: A ``relax.PyExprMutator`` of the module.
        constants: Whether it only changes constants, which is right in impure functions too.
    """
    effects = SideEffects(mod)
    for gvar, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        if constants or may_reorder(effects, func):
            writer.builder_.update_func(gvar, writer.visit_expr(func))
    return with_attrs(writer.builder_.get(), mod)


def may_reorder(effects: SideEffects, func: Any) -> bool:
    """Whether a rewrite may read a value of a function later than the function does."""
    effect = effects.of_function(func)
    return effect < Effect.IMPURE and not (effect and effects.overwrites(func))


def named(expr: Any, name: str) -> bool:
    """Whether an expression is a call of an operator."""
    op = getattr(expr, "op", None)
    return isinstance(op, IrOp) and op.name == name
