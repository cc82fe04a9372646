"""Sums, means and maxima of the rows of a table, over bags of any length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from .nodes.arguments import Converter, arguments
from .nodes.assertions import assert_none
from .nodes.constants import filled

op = relax.op
_SUM, _MEAN, _MAX = 0, 1, 2


def _embedding_bag(importer: Any, node: Any) -> Any:
    """Convert _embedding_bag; only output 0. Bag b has the indices from offset b to offset b + 1.

    The number of a row's bag is the number of offsets up to it, less 1. Rows of the padding index
    count as none, and a bag of none is 0. A call fails unless the offsets rise from 0 to at most
    the number of indices, where torch fails or returns elements that it did not write.
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
    if importer._equal(bags, 0):
        return [filled(importer, [bags, table.ty.shape[1]], 0.0, dtype), None, None, None]
    offsets = emit(op.astype(args["offsets"], "int64"))
    _check_offsets(importer, offsets, indices.ty.shape[0], bool(args["include_last_offset"]))
    last = importer._number(bags - 1, "int64")
    at = emit(op.expand_dims(_bags(emit, indices, offsets, last), 1))
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


def _bags(emit: Any, indices: Any, offsets: Any, last: Any) -> Any:
    """Return the bag of each row; of wrong offsets, which fail later, any bag up to the last."""
    number = emit(op.arange(0, indices.ty.shape[0], 1, "int64"))
    before = op.less_equal(offsets, emit(op.expand_dims(number, 1)))
    total = emit(op.sum(emit(op.astype(emit(before), "int64")), [1]))
    bag = emit(op.subtract(total, relax.const(1, "int64")))
    return emit(op.minimum(emit(op.maximum(bag, relax.const(0, "int64"))), last))


def _check_offsets(importer: Any, offsets: Any, count: Any, has_end: bool) -> None:
    """Assert that offsets start at 0 and rise to at most the count; to it if the end is one."""
    emit, length = importer.block_builder.emit, offsets.ty.shape[0]
    zero, one = relax.const(0, "int64"), relax.const(1, "int64")
    place = emit(op.arange(0, length, 1, "int64"))
    first = emit(op.equal(place, zero))
    assert_none(importer, emit(op.logical_and(first, emit(op.not_equal(offsets, zero)))),
                "the first offset of embedding_bag is not 0")  # fmt: skip
    previous = emit(op.take(offsets, emit(op.maximum(emit(op.subtract(place, one)), zero)), 0))
    assert_none(importer, emit(op.less(offsets, previous)),
                "an offset of embedding_bag is below the one before it")  # fmt: skip
    size = importer._number(count, "int64")
    assert_none(importer, emit(op.greater(offsets, size)),
                "an offset of embedding_bag is beyond the indices")  # fmt: skip
    if has_end:
        end = emit(op.equal(place, importer._number(length - 1, "int64")))
        assert_none(importer, emit(op.logical_and(end, emit(op.less(offsets, size)))),
                    "the last offset of embedding_bag is not the number of indices")  # fmt: skip


CONVERTERS: Mapping[str, Converter] = {
    f"{name}.default": _embedding_bag for name in ("_embedding_bag", "_embedding_bag_forward_only")
}
