"""Updates at the elements of an index: scatter, with reductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax

from ..nodes.arguments import Converter, arguments, positive
from .updates import elements_updated, points_updated

op = relax.op
#: Reductions by TVM's names.
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min",
               "add": "add", "multiply": "mul"}  # fmt: skip


def _scatter(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    reduction = _REDUCTIONS[args["reduce"]] if "reduce" in args else "update"
    return _scattered(importer, args, args["src"], reduction)


def _scatter_value(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    reduction = _REDUCTIONS[args["reduce"]] if "reduce" in args else "update"
    return _scattered(importer, args, _filled(importer, args, args["value"]), reduction)


def _scatter_add(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    return _scattered(importer, args, args["src"], "add")


def _filled(importer: Any, args: Mapping[str, Any], number: Any) -> Any:
    """Return a number for each element of the index."""
    value = relax.const(number, str(args["self"].ty.dtype))
    return importer.block_builder.emit(op.broadcast_to(value, args["index"].ty.shape))


def _scattered(importer: Any, args: Mapping[str, Any], rows: Any, reduction: str) -> Any:
    """Write the elements of `rows` that stand where the index has elements.

    torch refuses negative elements of the index, which TVM's `scatter_elements` counts from the
    end, unless they have no sign: as such they are far outside of the axis, and a call fails.
    """
    emit, x, index, dim = importer.block_builder.emit, args["self"], args["index"], args["dim"]
    dims, own, given = (list(tensor.ty.shape) for tensor in (x, index, rows))
    if any(importer._equal(size, 0) for size in own):
        return x
    if not dims or not own:  # of a single element
        parts = [emit(op.reshape(tensor, [1])) for tensor in (x, index, rows)]
        return emit(
            op.reshape(_elements(importer, parts[0], parts[1], parts[2], 0, reduction), dims)
        )
    axis = dim % len(dims)
    if not all(importer._equal(a, b) for a, b in zip(own, given, strict=True)):
        rows = emit(op.strided_slice(rows, list(range(len(own))), [0] * len(own), own))
    may_differ = (0, axis, axis + 1)  # of axes before and after, TVM's code assumes those of data
    if all(k in may_differ or importer._equal(a, b)
           for k, (a, b) in enumerate(zip(dims, own, strict=True))):  # fmt: skip
        return _elements(importer, x, index, rows, axis, reduction)
    points = []
    for k, size in enumerate(own):
        shape = [size if j == k else 1 for j in range(len(own))]
        position = emit(op.reshape(emit(op.arange(0, size, 1, "int64")), shape))
        points.append(index if k == axis else emit(op.broadcast_to(position, own)))
    return points_updated(importer, x, emit(op.stack(points, -1)), rows, reduction)


def _elements(importer: Any, x: Any, index: Any, rows: Any, axis: int, reduction: str) -> Any:
    index = importer.block_builder.emit(op.astype(index, "uint64"))
    return elements_updated(importer, x, index, rows, axis, reduction)


def _scatter_reduce(importer: Any, node: Any) -> Any:
    return _reduced(importer, arguments(importer, node))


def _index_reduce(importer: Any, node: Any) -> Any:
    """Convert index_reduce, which reads one index for each row of the source."""
    args = arguments(importer, node)
    emit, rows = importer.block_builder.emit, args["source"]
    rows = emit(op.reshape(rows, [1])) if rows.ty.ndim == 0 else rows
    axis = positive(args["dim"], rows.ty.ndim)
    along = [-1 if k == axis else 1 for k in range(rows.ty.ndim)]
    index = emit(op.broadcast_to(emit(op.reshape(args["index"], along)), rows.ty.shape))
    return _reduced(importer, {**args, "index": index, "src": rows})


def _reduced(importer: Any, args: Mapping[str, Any]) -> Any:
    """Reduce rows into a tensor; a mean is a sum by a count, rounded down for integers."""
    emit, x, mode = importer.block_builder.emit, args["self"], args["reduce"]
    dtype = str(x.ty.dtype)
    count = None
    if mode == "mean" or not args["include_self"]:
        zeros = emit(op.full(x.ty.shape, relax.const(0, dtype), dtype))
        ones = _filled(importer, args, 1)
        count = _scattered(importer, {**args, "self": zeros}, ones, "add")
    if not args["include_self"]:
        hit = emit(op.greater(count, relax.const(0, dtype)))
        x = emit(op.where(hit, relax.const(_identity(mode, dtype), dtype), x))
    reduction = _REDUCTIONS["sum" if mode == "mean" else mode]
    out = _scattered(importer, {**args, "self": x}, args["src"], reduction)
    if mode != "mean":
        return out
    one = relax.const(1, dtype)
    total = emit(op.add(count, one) if args["include_self"] else op.maximum(count, one))
    return emit(op.divide(out, total) if "float" in dtype else op.floor_divide(out, total))


def _identity(mode: str, dtype: str) -> Any:
    """Return the number that a reduction starts from."""
    if mode in ("sum", "mean", "prod"):
        return int(mode == "prod")
    if "float" in dtype:
        return float("-inf" if mode == "amax" else "inf")
    limits = np.iinfo(dtype)
    return limits.min if mode == "amax" else limits.max


CONVERTERS: Mapping[str, Converter] = {
    "scatter.src": _scatter, "scatter.value": _scatter_value,
    "scatter.reduce": _scatter, "scatter.value_reduce": _scatter_value,
    "scatter_add.default": _scatter_add, "scatter_reduce.two": _scatter_reduce,
    "index_reduce.default": _index_reduce,
}  # fmt: skip
