"""Sizes that a model computes from data, as symbols."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

#: Sizes are below it, so that products of a few of them stay within int64.
LIMIT = 1 << 40


def data_sizes(builder: Any, numbers: Any, name: str, valid: Any = None) -> list[Any]:
    """Return a symbol for each element of a vector; a call fails unless all are sizes.

    Before: ``n`` is an element of a tensor. After::

        s = tensor_to_shape(concat([clip(n, 0, LIMIT - 1), [0 <= n < LIMIT ? 1 : n]]))
        match_cast(s, Shape([size_0, 1]))

    The 1 of the cast is the check: TVM takes a symbol of a shape for one from 0, and would drop a
    comparison of it.

    Args:
        builder: The block builder.
        numbers: A vector of int64, of static extent.
        name: A prefix for the names of the symbols.
        valid: A scalar of bool that has to hold, too.
    """
    emit, op = builder.emit, relax.op
    zero, last = (relax.const(number, "int64") for number in (0, LIMIT - 1))
    clipped = emit(op.minimum(emit(op.maximum(numbers, zero)), last))
    one = relax.const(1, "int64")
    wrong = emit(op.where(emit(op.equal(clipped, numbers)), one, numbers))
    checks = [wrong]
    if int(numbers.ty.shape[0]) > 1:
        checks = [emit(op.min(wrong, keepdims=True)), emit(op.max(wrong, keepdims=True))]
    if valid is not None:
        checks.append(emit(op.reshape(emit(op.astype(valid, "int64")), [1])))
    shape = emit(op.tensor_to_shape(emit(op.concat([clipped, *checks], 0))))
    symbols = [tirx.Var(f"{name}_{k}", "int64") for k in range(int(numbers.ty.shape[0]))]
    builder.match_cast(
        shape, relax.ShapeType([*symbols, *(tirx.IntImm("int64", 1) for _ in checks)])
    )
    return symbols
