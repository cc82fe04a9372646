"""Rows that are added, copied or filled at an index.

torch decomposes these operators into ``x[index] = rows``, which counts negative elements from the
end; `index_add` and `index_copy` refuse them. So they are converted whole, and no size is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from ..nodes.arguments import Converter, arguments, positive, tensor
from .gathering import flat_positions, put_rows

op = relax.op


def _index_add(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    rows, alpha = args["source"], args["alpha"]
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        factor = tensor(importer, alpha, rows.ty.dtype)
        rows = importer.block_builder.emit(op.multiply(rows, factor))
    return _put(importer, args, rows, True)


def _index_copy(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    return _put(importer, args, args["source"], False)


def _index_fill(importer: Any, node: Any) -> Any:
    """Fill rows with a number; elements of the index below 0 count from the end."""
    args = arguments(importer, node)
    x = args["self"]
    size = 1 if x.ty.ndim == 0 else x.ty.shape[positive(args["dim"], x.ty.ndim)]
    index = flat_positions(importer, [args["index"]], [size], "wrap", [True])
    value = tensor(importer, args["value"], str(x.ty.dtype))
    shape = [1] if x.ty.ndim == 0 else list(x.ty.shape)
    shape[args["dim"]] = 1 if args["index"].ty.ndim == 0 else args["index"].ty.shape[0]
    rows = importer.block_builder.emit(op.broadcast_to(value, shape))
    return _put(importer, {**args, "index": index}, rows, False)


def _put(importer: Any, args: Mapping[str, Any], rows: Any, accumulate: bool) -> Any:
    """Write rows at an index; tensors without axes become vectors of one element."""
    emit, dims = importer.block_builder.emit, args["self"].ty.shape
    x, index = (
        emit(op.reshape(t, [1])) if t.ty.ndim == 0 else t for t in (args["self"], args["index"])
    )
    axis = positive(args["dim"], x.ty.ndim)
    rows = emit(op.reshape(rows, [index.ty.shape[0] if k == axis else size
                                  for k, size in enumerate(x.ty.shape)]))  # fmt: skip
    out = put_rows(importer, x, [axis], index, rows, accumulate)
    return out if x.ty.ndim == len(dims) else emit(op.reshape(out, dims))


CONVERTERS: Mapping[str, Converter] = {
    "index_add.default": _index_add, "index_copy.default": _index_copy,
    "index_fill.int_Scalar": _index_fill, "index_fill.int_Tensor": _index_fill,
}  # fmt: skip
