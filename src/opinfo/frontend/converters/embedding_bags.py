"""Sums, means and maxima of the rows of a table, over bags of any length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from .nodes.arguments import Converter, arguments
from .nodes.constants import filled

op = relax.op
_SUM, _MEAN, _MAX = 0, 1, 2


def _embedding_bag(importer: Any, node: Any) -> Any:
    """Convert _embedding_bag; only output 0. Bag b has the indices from offset b to offset b + 1.

    The number of a row's bag is the number of offsets up to it, less 1. Rows of the padding index
    count as none, and a bag of none is 0.
    """
    args = arguments(importer, node)
    emit, table, mode = importer.block_builder.emit, args["weight"], args["mode"]
    dtype, bags = str(table.ty.dtype), importer._sizes_of(node, 0)[0]
    indices = emit(op.astype(args["indices"], "int64"))
    rows = emit(op.take(table, indices, 0))
    if args["per_sample_weights"] is not None:
        weights = emit(op.expand_dims(emit(op.astype(args["per_sample_weights"], dtype)), 1))
        rows = emit(op.multiply(rows, weights))
    counts = emit(op.not_equal(indices, relax.const(args["padding_idx"], "int64")))
    where = emit(op.expand_dims(counts, 1))
    absent = float("-inf") if mode == _MAX else 0.0
    rows = emit(op.where(where, rows, relax.const(absent, dtype)))
    at = emit(op.expand_dims(_bags(emit, indices, args["offsets"]), 1))
    start = filled(importer, [bags, table.ty.shape[1]], absent, dtype)
    out = emit(op.scatter_nd(start, at, rows, "max" if mode == _MAX else "add"))
    if mode == _SUM:
        return [out, None, None, None]
    none = filled(importer, [bags], 0.0, dtype)
    sizes = emit(op.scatter_nd(none, at, emit(op.astype(counts, dtype)), "add"))
    sizes = emit(op.expand_dims(sizes, 1))
    if mode == _MEAN:
        return [emit(op.divide(out, emit(op.maximum(sizes, relax.const(1.0, dtype))))),
                None, None, None]  # fmt: skip
    has_rows = emit(op.greater(sizes, relax.const(0.0, dtype)))
    return [emit(op.where(has_rows, out, relax.const(0.0, dtype))), None, None, None]


def _bags(emit: Any, indices: Any, offsets: Any) -> Any:
    offsets = emit(op.astype(offsets, "int64"))
    number = emit(op.arange(0, indices.ty.shape[0], 1, "int64"))
    before = op.less_equal(offsets, emit(op.expand_dims(number, 1)))
    total = emit(op.sum(emit(op.astype(emit(before), "int64")), [1]))
    return emit(op.subtract(total, relax.const(1, "int64")))


CONVERTERS: Mapping[str, Converter] = {
    f"{name}.default": _embedding_bag for name in ("_embedding_bag", "_embedding_bag_forward_only")
}
