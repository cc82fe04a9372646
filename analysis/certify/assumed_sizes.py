"""A tensor expression under the assumption that some sizes are functions of others.

A PrimFunc may have a size of its own where its callers always pass a function of other sizes, such
as the number of chunks of a row. Then it is an operator only for such callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..lifting.loops.reduction import canonical
from ..terms.term import Int, TensorVar, Term, Var, axis, load
from ..terms.traversal import ints, map_loads, substitute


def assumed(sizes: Mapping[Var, Int]) -> tuple[str, ...]:
    """Return the assumptions in words."""
    return tuple(f"the size {var!r} is {value!r}" for var, value in sizes.items())


def over_sizes(expression: TensorExpression, sizes: Mapping[Var, Int]) -> TensorExpression:
    """Return the expression with sizes replaced, in shapes and in terms.

    Args:
        expression: The expression.
        sizes: Terms over the other sizes.
    """
    changed: dict[TensorVar, TensorVar] = {}
    for param in expression.params:
        if isinstance(param, TensorVar):
            shape = tuple(ints(e, sizes) for e in param.shape)
            if shape != param.shape:
                changed[param] = TensorVar(
                    param.name, shape, param.dtype, param.position, param.scalar
                )
    params = (
        changed.get(p, p) if isinstance(p, TensorVar) else p
        for p in expression.params
        if p not in sizes
    )
    outputs = tuple(_output(c, sizes, changed) for c in expression.outputs)
    return replace(expression, params=tuple(params), outputs=outputs)


def over_values(value: Any, sizes: Mapping[Var, Int]) -> Any:
    """Return an attribute with sizes replaced."""
    if isinstance(value, (tuple, list)):
        return type(value)(over_values(v, sizes) for v in value)
    return ints(value, sizes) if isinstance(value, Int) else value


def _output(
    definition: OutputDefinition, sizes: Mapping[Var, Int], changed: Mapping[TensorVar, TensorVar]
) -> OutputDefinition:
    out = changed.get(definition.out, definition.out)
    axes = tuple(axis(d, e) for d, e in enumerate(out.shape))
    mapping: dict[Var, Term] = dict(sizes)
    for old, new in zip(definition.axes, axes, strict=True):
        if isinstance(old.atom, Var) and old is not new:
            mapping[old.atom] = new
    body = substitute(definition.body, mapping)
    body = map_loads(body, frozenset(changed), lambda t, index: load(changed[t], index))
    return OutputDefinition(out, axes, canonical(body))


def lone_size(extent: Int) -> Var | None:
    """The variable if an extent is a size on its own."""
    only = extent.atom
    return only if isinstance(only, Var) and only.kind == "size" else None
