"""Say where a value that is only known at run time stems from, and how to make it a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax, tirx

from ..checks.error import shortened
from .scalars import is_expr
from .values import NotConvertible, TensorValue

#: Limit on the elements of an input that a message proposes to make a constant.
FEW = 64
#: Limit on the inputs that a message names.
NAMED = 3


def not_constant(
    what: str, value: TensorValue, expected: str, builder: Any, scope: Mapping[str, Any]
) -> NotConvertible:
    """Return the refusal of a value that is computed at run time.

    Args:
        what: What the value is for the node.
        value: The value.
        expected: What it may be.
        builder: The block builder of the import.
        scope: The values of the graph by name.
    """
    inputs, sizes = _sources(value.expr, builder, scope)
    if not inputs and sizes:
        return NotConvertible(f"{what} depends on symbolic dimensions", sizes)
    source, mend = "data", "make it an initializer"
    if 0 < len(inputs) <= NAMED:
        names = [f"'{shortened(name, 80)}'" for name in inputs]
        source = f"the input {names[0]}" if len(names) == 1 else f"the inputs {', '.join(names)}"
        if all(_is_short(param) for param in inputs.values()):
            mend = ("add an initializer of that name to the file" if len(names) == 1
                    else "add initializers of these names to the file")  # fmt: skip
    return NotConvertible(
        f"{what} is computed at run time from {source}, expected {expected}: {mend}"
    )


def _sources(expr: Any, builder: Any, scope: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the inputs of the model from which a value is computed, and the symbolic sizes."""
    names: dict[Any, str] = {}
    for name, known in scope.items():  # an input comes before copies of it
        if isinstance(known, TensorValue) and isinstance(known.expr, relax.Var):
            names.setdefault(known.expr, name)
    inputs: dict[str, Any] = {}
    sizes: list[Any] = []
    seen, pending = set(), [expr]

    def visit(part: Any) -> None:
        if isinstance(part, relax.Var) and part not in seen:
            seen.add(part)
            pending.append(part)
        elif isinstance(part, relax.ShapeExpr):
            sizes.extend(size for size in part.values if is_expr(size))

    while pending:
        part = pending.pop()
        bound = builder.lookup_binding(part) if isinstance(part, relax.Var) else part
        if bound is not None:
            relax.analysis.post_order_visit(bound, visit)
        elif part in names:
            inputs.setdefault(names[part], part)
    return inputs, sizes


def _is_short(param: Any) -> bool:
    """Return whether a vector or a scalar has few elements."""
    shape = param.ty.shape
    if not isinstance(shape, relax.ShapeExpr) or len(shape.values) > 1:
        return False
    return all(isinstance(size, tirx.IntImm) and size.value <= FEW for size in shape.values)
