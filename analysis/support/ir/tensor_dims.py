"""The dimensions of Relax tensors."""

from __future__ import annotations

from typing import Any

from tvm import relax


def tensor_dims(expr: Any) -> list[Any] | None:
    """Return the dimensions of an expression; None if they are unknown."""
    shape = getattr(expr.ty, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else None
