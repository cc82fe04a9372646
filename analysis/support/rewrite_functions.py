"""Apply a mutator to the Relax functions of a module."""

from __future__ import annotations

from typing import Any

from tvm import relax


def rewrite_functions(mod: Any, mutator: Any) -> Any:
    """Return the module with each Relax function mutated, and its attributes.

    Args:
        mod: The module; it is not changed.
        mutator: A ``relax.PyExprMutator`` of the module. It may add functions.
    """
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            mutator.builder_.update_func(gvar, mutator.visit_expr(func))
    return with_attrs(mutator.builder_.get(), mod)


def with_attrs(mod: Any, of: Any) -> Any:
    """Return the module with the attributes of ``of``."""
    return mod.with_attrs(of.attrs) if of.attrs else mod
