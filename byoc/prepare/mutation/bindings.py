"""What the variables of a function that is mutated are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict


def bound_value(writer: relax.PyExprMutator, expr: Any) -> Any:
    """What a variable is bound to; any other expression is returned."""
    value = writer.lookup_binding(expr) if isinstance(expr, relax.Var) else None
    return expr if value is None else value


def final_value(writer: relax.PyExprMutator, expr: Any) -> Any:
    """What a variable is bound to, through variables that are bound to variables."""
    value = bound_value(writer, expr)
    return expr if value is expr else final_value(writer, value)


def resolved(expr: Any, values: Mapping[Any, Any] | NodeDict[Any]) -> Any:
    """What a variable stands for, by what each variable is bound to; an unknown one is returned."""
    while isinstance(expr, relax.Var) and expr in values:
        expr = values[expr]
    return expr


def variables_read(expr: Any) -> list[Any]:
    """The variables in an expression, each once."""
    variables: NodeDict[Any] = NodeDict()
    tvm_ffi.structural_walk(expr, (relax.Var, lambda var: variables.__setitem__(var, var)))
    return [var for var, _ in variables.items()]
