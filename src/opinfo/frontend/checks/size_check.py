"""A condition on sizes as a binding that fails when the model is called."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx


def size_check(condition: Any) -> tuple[relax.ShapeExpr, relax.ShapeType]:
    """Return the value and type of a cast that fails unless a condition on sizes holds.

    For `n % 2 == 0`: `match_cast(shape([1]), Shape([n % 2 == 0 ? 1 : 0]))`. A cast stays in the
    program, though its result has no use, and may stand in a dataflow block.
    """
    one, zero = tirx.IntImm("int64", 1), tirx.IntImm("int64", 0)
    return relax.ShapeExpr([one]), relax.ShapeType([tirx.Select(condition, one, zero)])
