"""Layers of experts: the choice of experts, and products of groups of rows with their matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from .nodes.arguments import Converter, arguments
from .torch_products import accumulated


def _grouped_mm(importer: Any, node: Any) -> Any:
    """Convert ``aten._grouped_mm`` of rows, or of a batch, with a batch of matrices.

    The number of rows in each group is data. If the groups are columns, or parts of the reduced
    axis, the operator is refused.
    """
    args = arguments(importer, node)
    x, matrices, ends = args["self"], args["mat2"], args["offs"]
    emit = importer.block_builder.emit
    if (x.ty.ndim, matrices.ty.ndim, ends is None) == (3, 3, True):
        out = emit(relax.op.matmul(x, matrices, out_dtype=accumulated(x)))
    elif (x.ty.ndim, matrices.ty.ndim, ends is None) == (2, 3, False):
        out = _rows_of_groups(emit, x, matrices, ends)
    else:
        raise NotImplementedError(
            f"it multiplies tensors of rank {x.ty.ndim} and {matrices.ty.ndim} in groups, "
            "expected groups of rows and a batch of matrices"
        )
    return out if args["bias"] is None else emit(relax.op.add(out, args["bias"]))


def _fallback(importer: Any, node: Any) -> Any:
    """Convert ``transformers::grouped_mm_fallback``: rows behind the last group are zeros."""
    x, matrices, ends = (importer.env[arg] for arg in node.args)
    emit, count = importer.block_builder.emit, matrices.ty.shape[0]
    out = _rows_of_groups(emit, x, matrices, ends)
    last = emit(relax.op.strided_slice(ends, [0], [count - 1], [count]))
    rows = emit(relax.op.arange(0, x.ty.shape[0], 1, str(ends.ty.dtype)))
    inside = emit(relax.op.expand_dims(emit(relax.op.less(rows, last)), [1]))
    return emit(relax.op.where(inside, out, relax.const(0, out.ty.dtype)))


def _rows_of_groups(emit: Any, x: Any, matrices: Any, ends: Any) -> Any:
    """Return the product of each row with the matrix of its group.

    Args:
        emit: Emits a binding.
        x: (rows, k).
        matrices: (groups, k, n).
        ends: (groups,), integers in increasing order: the row behind each group.
    """
    dtype, rows = str(ends.ty.dtype), x.ty.shape[0]
    number = emit(relax.op.arange(0, rows, 1, dtype))
    before = emit(relax.op.less_equal(ends, emit(relax.op.expand_dims(number, [1]))))
    group = emit(relax.op.sum(emit(relax.op.astype(before, dtype)), axis=[1]))
    last = relax.const(int(matrices.ty.shape[0]) - 1, dtype)
    group = emit(relax.op.minimum(group, last))
    chosen = emit(relax.op.take(matrices, group, axis=0))
    product = relax.op.matmul(relax.op.expand_dims(x, [1]), chosen, out_dtype=accumulated(x))
    return emit(relax.op.squeeze(emit(product), [1]))


def _histc(importer: Any, node: Any) -> Any:
    """Convert a histogram: how many elements are in each of some bins of equal width.

    An element at the upper limit is in the last bin; those outside of the limits, and NaN, in none.
    """
    args = arguments(importer, node)
    x, bins, low, high = args["self"], args["bins"], args["min"], args["max"]
    if not low < high:
        raise NotImplementedError(f"the limits of its bins, {low} and {high}, depend on the data")
    emit, op, dtype = importer.block_builder.emit, relax.op, str(x.ty.dtype)
    flat = emit(op.reshape(x, [-1, 1]))

    def number(value: float) -> Any:
        return relax.const(value, dtype)

    place = op.divide(op.multiply(op.subtract(flat, number(low)), number(bins)),
                      number(high - low))  # fmt: skip
    inside = op.logical_and(op.greater_equal(flat, number(low)),
                            op.less_equal(flat, number(high)))  # fmt: skip
    place = op.minimum(op.floor(place), number(bins - 1))
    in_bin = op.logical_and(inside, op.equal(place, op.arange(0, bins, 1, dtype)))
    return emit(op.sum(emit(op.astype(emit(in_bin), dtype)), axis=[0]))


CONVERTERS: Mapping[str, Converter] = {
    "_grouped_mm.default": _grouped_mm, "grouped_mm_fallback.default": _fallback,
    "histc.default": _histc,
}  # fmt: skip
