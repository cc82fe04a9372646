"""Parts of tensors, and tensors put together, with the extents that the program declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from .nodes.arguments import Converter, arguments, positive, tensor

#: What torch writes for the end of an axis.
_LAST = 2**63 - 1


def _slice(importer: Any, node: Any) -> Any:
    """Convert a slice; its end follows from the declared extent, which torch has clamped."""
    args = arguments(importer, node)
    x, step = args["self"], args["step"]
    axis = positive(args["dim"], x.ty.ndim)
    extent, length = x.ty.shape[axis], importer._sizes(node)[axis]
    if step == 1 and importer._equal(length, extent):
        return x
    start = _from_front(args["start"], extent, _is_negative(node, "start"))
    may_be_empty = not _has_elements(node.meta["val"].shape[axis])
    if step == 1 and _is_rest(args["end"]):
        start = tvm.sym.Analyzer().simplify(extent - length)  # torch has clamped it
    elif may_be_empty and not importer._equal(start, 0):
        start = tirx.min(start, extent)
    end = start + length if step == 1 else start + (length - 1) * step + 1
    if may_be_empty and step != 1:
        end = tirx.max(end, start)
    return importer.block_builder.emit(
        relax.op.strided_slice(x, [axis], [start], [end], [step], assume_inbound=True)
    )


def _from_front(index: Any, extent: Any, negative: bool | None) -> Any:
    """Return the start of a slice counted from the front, clamped where it may be negative."""
    if index is None:
        return 0
    if isinstance(index, int) and isinstance(extent, tirx.IntImm):
        size = int(extent.value)
        return max(0, index + size) if index < 0 else min(index, size)
    at = _in_range(index, extent, negative)
    return at if negative is False else tirx.max(at, 0)


def _in_range(index: Any, extent: Any, negative: bool | None) -> Any:
    """Return an index counted from the front; it is in range, so it is not clamped."""
    if negative is False:
        return index
    if negative is None:
        return tirx.Select(index < 0, extent + index, index)
    static = isinstance(index, int) and isinstance(extent, tirx.IntImm)
    return int(extent.value) + index if static else extent + index


def _is_negative(node: Any, name: str) -> bool | None:
    """Return whether an index counts from the end; None if only the run decides."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    names = [a.name for a in node.target._schema.arguments]
    values = dict(zip(names, node.args, strict=False)) | node.kwargs
    index = values.get(name)
    index = index.meta["val"] if hasattr(index, "meta") else index
    if index is None or statically_known_true(index >= 0):
        return False
    return True if statically_known_true(index < 0) else None


def _has_elements(length: Any) -> bool:
    """Return whether torch knows that a slice is not empty, and so begins inside."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(length >= 1))


def _is_rest(end: Any) -> bool:
    """Return whether a slice goes to the end of its axis."""
    return end is None or (isinstance(end, int) and end >= _LAST)


def _select(importer: Any, node: Any) -> Any:
    """Convert the choice of one index, which may be counted from the end."""
    args = arguments(importer, node)
    x, emit = args["self"], importer.block_builder.emit
    axis = positive(args["dim"], x.ty.ndim)
    index = _in_range(args["index"], x.ty.shape[axis], _is_negative(node, "index"))
    if isinstance(index, (int, tirx.IntImm)):
        return emit(relax.op.take(x, relax.const(int(index), "int64"), axis))
    part = emit(relax.op.strided_slice(x, [axis], [index], [index + 1], assume_inbound=True))
    return emit(relax.op.squeeze(part, [axis]))


def _slice_scatter(importer: Any, node: Any) -> Any:
    """Convert a slice that is replaced: the parts before and after it, and the source.

    With a step, each element is taken from the tensor or from the source, whichever has its place.
    """
    args = arguments(importer, node)
    x, emit = args["self"], importer.block_builder.emit
    axis = positive(args["dim"], x.ty.ndim)
    extent, length = x.ty.shape[axis], args["src"].ty.shape[axis]
    if importer._equal(length, 0):
        return x
    start = _from_front(args["start"], extent, _is_negative(node, "start"))
    if args["step"] != 1:
        places = _interleaved(importer, extent, length, start, args["step"])
        return emit(relax.op.take(emit(relax.op.concat([x, args["src"]], axis)), places, axis,
                                  mode="fast"))  # fmt: skip
    if not isinstance(length, tirx.IntImm):
        start = tirx.min(start, extent - length)  # no rows may be behind the end
    return emit(relax.op.concat(
        _around(importer, x, args["src"], axis, start, start + length), axis))  # fmt: skip


def _interleaved(importer: Any, extent: Any, length: Any, start: Any, step: int) -> Any:
    """Return places in an axis and the rows after it, of which ``length`` replace a slice."""
    if all(isinstance(e, (int, tirx.IntImm)) for e in (extent, length, start)):
        places = np.arange(int(extent))
        rows = np.arange(int(length))
        places[int(start) + step * rows] = int(extent) + rows
        return relax.const(places, "int64")
    emit, op = importer.block_builder.emit, relax.op
    size, first, count = (tensor(importer, e, "int64") for e in (extent, start, length))
    zero, by = relax.const(0, "int64"), relax.const(step, "int64")
    place = emit(op.arange(0, extent, 1, "int64"))
    ahead = emit(op.subtract(place, first))
    row = emit(op.floor_divide(ahead, by))
    inside = emit(op.logical_and(emit(op.greater_equal(ahead, zero)), emit(op.less(row, count))))
    replaced = emit(op.logical_and(emit(op.equal(emit(op.multiply(row, by)), ahead)), inside))
    return emit(op.where(replaced, emit(op.add(row, size)), place))


def _around(importer: Any, x: Any, source: Any, axis: int, start: Any, end: Any) -> list[Any]:
    emit, extent = importer.block_builder.emit, x.ty.shape[axis]
    parts = []
    if not importer._equal(start, 0):
        parts.append(emit(relax.op.strided_slice(x, [axis], [0], [start], assume_inbound=True)))
    parts.append(source)
    if not importer._equal(end, extent):
        parts.append(emit(relax.op.strided_slice(x, [axis], [end], [extent], assume_inbound=True)))
    return parts


def _select_scatter(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    x, emit = args["self"], importer.block_builder.emit
    axis = positive(args["dim"], x.ty.ndim)
    start = _in_range(args["index"], x.ty.shape[axis], _is_negative(node, "index"))
    source = emit(relax.op.expand_dims(args["src"], axis))
    return emit(relax.op.concat(_around(importer, x, source, axis, start, start + 1), axis))


def _unfold(importer: Any, node: Any) -> Any:
    """Convert unfold: the windows of an axis, with their elements along a new last axis."""
    args = arguments(importer, node)
    x, emit = args["self"], importer.block_builder.emit
    if x.ty.ndim == 0:
        return emit(relax.op.reshape(x, [args["size"]]))
    axis = positive(args["dimension"], x.ty.ndim)
    starts = emit(relax.op.arange(0, importer._sizes(node)[axis], 1, "int64"))
    starts = emit(relax.op.multiply(starts, relax.const(args["step"], "int64")))
    steps = relax.const(np.arange(args["size"]), "int64")
    places = emit(relax.op.add(emit(relax.op.expand_dims(starts, 1)), steps))
    windows = emit(relax.op.take(x, places, axis))
    order = [k for k in range(x.ty.ndim + 1) if k != axis + 1]
    return emit(relax.op.permute_dims(windows, [*order, axis + 1]))


def _cat(importer: Any, node: Any) -> Any:
    """Convert a concatenation; torch ignores an empty vector among tensors of any rank.

    An empty cache of `transformers` starts as such a vector.
    """
    args = arguments(importer, node)
    parts = [x for x in args["tensors"] if not _is_empty_vector(x)] or args["tensors"][:1]
    axis = positive(args["dim"], parts[0].ty.ndim)
    parts = [x for x in parts if not importer._equal(x.ty.shape[axis], 0)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return importer.block_builder.emit(relax.op.concat(parts, axis))


def _is_empty_vector(x: Any) -> bool:
    return x.ty.ndim == 1 and isinstance(x.ty.shape[0], tirx.IntImm) and int(x.ty.shape[0]) == 0


def _split(importer: Any, node: Any) -> Any:
    """Convert split_with_sizes, also by symbolic sizes, of which torch has checked the sum."""
    args, emit = arguments(importer, node), importer.block_builder.emit
    x, axis = args["self"], positive(args["dim"], args["self"].ty.ndim)
    sizes = [importer._sizes_of(node, k)[axis] for k in range(len(node.meta["val"]))]
    start, parts = 0, []
    for size in sizes:
        part = relax.op.strided_slice(x, [axis], [start], [start + size], [1], assume_inbound=True)
        parts.append(emit(part))
        start = start + size
    return parts


def _split_by_numbers(importer: Any, node: Any) -> Any:
    """Convert split_with_sizes; backends know TVM's operator, which has no empty parts."""
    sizes = arguments(importer, node)["split_sizes"]
    are_positive = all(isinstance(size, int) and size > 0 for size in sizes)
    return importer._split(node) if are_positive else _split(importer, node)


CONVERTERS: Mapping[str, Converter] = {
    "split_with_sizes.default": _split_by_numbers,
    "cat.default": _cat, "unfold.default": _unfold, "slice.Tensor": _slice, "select.int": _select,
    "slice_scatter.default": _slice_scatter, "select_scatter.default": _select_scatter,
}  # fmt: skip
