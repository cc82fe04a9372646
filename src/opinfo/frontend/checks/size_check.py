"""Conditions on sizes as bindings that fail when the model is called."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from ...analysis.support.failed_check import check_text

#: Takes a tensor, its number of dimensions, and the text of an error.
CHECK = "vm.builtin.check_tensor_info"


def size_check(condition: Any) -> tuple[relax.ShapeExpr, relax.ShapeType]:
    """Return the value and type of a cast that fails unless a condition on sizes holds.

    For `n % 2 == 0`: `match_cast(shape([1]), Shape([n % 2 == 0 ? 1 : 0]))`. A cast stays in the
    program, though its result has no use, and may stand in a dataflow block.
    """
    one, zero = tirx.IntImm("int64", 1), tirx.IntImm("int64", 0)
    return relax.ShapeExpr([one]), relax.ShapeType([tirx.Select(condition, one, zero)])


def failing(text: str, rank: int, dtype: str) -> relax.Call:
    """Return a call that fails with a text, in place of a tensor.

    Relax's own assertion needs Python when the model runs. So a scalar is checked for having one
    dimension, by a function of the virtual machine that takes a text for its error.
    """
    return relax.op.call_pure_packed(
        CHECK, relax.const(0, "int64"), relax.prim_value(1), check_text(text),
        ty_args=relax.TensorType(ndim=rank, dtype=dtype),
    )  # fmt: skip
