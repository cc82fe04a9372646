"""Rewrite the functions of a module."""

from __future__ import annotations

from collections.abc import Callable
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


def replaced_functions(mod: Any, replace: Callable[[Any], Any]) -> Any:
    """Return the module with other functions; the same one if all stay.

    Args:
        mod: The module; it is not changed.
        replace: Returns the function in place of one of the module, which may be the same.
    """
    changed = [(gvar, new) for gvar, func in mod.functions_items()
               if not (new := replace(func)).same_as(func)]  # fmt: skip
    if not changed:
        return mod
    out = mod.clone()
    for gvar, func in changed:
        out.update_func(gvar, func)
    return out


def with_attrs(mod: Any, of: Any) -> Any:
    """Return the module with the attributes of ``of``."""
    return mod.with_attrs(of.attrs) if of.attrs else mod
