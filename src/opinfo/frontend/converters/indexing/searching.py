"""Orders and searches in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax, te, tirx

from ..nodes.arguments import Converter, arguments, positive, tensor

op = relax.op


def _searchsorted(importer: Any, node: Any) -> Any:
    """Convert searchsorted: how many elements of a sorted row are below each value.

    The number is that of all comparisons that hold, so no loop ends at a place that is data.
    """
    args = arguments(importer, node)
    emit, row = importer.block_builder.emit, args["sorted_sequence"]
    values = tensor(importer, args["self"], row.ty.dtype)
    if args["sorter"] is not None:
        row = emit(op.gather_elements(row, args["sorter"], -1))
    right = args["right"] or args["side"] == "right"
    wide = emit(op.expand_dims(values, -1))
    if row.ty.ndim > 1:
        row = emit(op.expand_dims(row, -2))
    below = emit(op.less_equal(row, wide) if right else op.less(row, wide))
    return emit(op.sum(emit(op.astype(below, "int64")), [-1]))


def _sort(importer: Any, node: Any) -> Any:
    """Convert sort; TVM's sort is stable."""
    args = arguments(importer, node)
    return _sorted(importer, args["self"], args["dim"], bool(args["descending"]))


#: Types that TVM's sort does not take, and that int32 holds.
_SHORT = frozenset({"bool", "int8", "uint8", "int16", "uint16"})


_HALVES = frozenset({"float16", "bfloat16"})
#: Integers of the same width as floats.
_ORDERS = {"float32": "int32", "float64": "int64"}


def _order(data: Any) -> Any:
    """Return integers in the order of floats, NaN as the largest; TVM's sort compares by `<`.

    The bits of a float rise with it if it is positive, and fall else; -0 equals 0.
    """
    to = _ORDERS[str(data.dtype)]
    largest = tirx.max_value(to)

    def element(*at: Any) -> Any:
        value = data(*at)
        bits = tirx.reinterpret(to, value)
        bits = tirx.Select(bits < 0, tirx.bitwise_xor(bits, largest), bits)
        bits = tirx.Select(value == tirx.const(0, data.dtype), tirx.const(0, to), bits)
        return tirx.Select(tirx.isnan(value), largest, bits)

    return te.compute(data.shape, element, name="order")


def _sorted(importer: Any, x: Any, axis: int, descending: bool) -> list[Any]:
    emit = importer.block_builder.emit
    data = _ordered(importer, x)
    positions = emit(op.argsort(data, axis, descending, dtype="int64"))
    return [emit(op.gather_elements(x, positions, axis)), positions]


def _ordered(importer: Any, x: Any) -> Any:
    """Return integers in the order of floats, and int32 for short ones; other tensors stay."""
    dtype = str(x.ty.dtype)
    if dtype in _SHORT:
        return importer.block_builder.emit(op.astype(x, "int32"))
    if dtype not in (*_HALVES, *_ORDERS):
        return x
    data = importer.block_builder.emit(op.astype(x, "float32")) if dtype in _HALVES else x
    return importer.block_builder.emit_te(_order, data, primfunc_name_hint="order")


def _topk(importer: Any, node: Any) -> Any:
    """Convert topk; where the order of the results is undefined, they are sorted.

    NaN is the largest number, as in sort.
    """
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    options = {"k": args["k"], "axis": args["dim"], "largest": args["largest"], "dtype": "int64"}
    data = _ordered(importer, x)
    if data.same_as(x):
        return emit(op.topk(x, ret_type="both", **options))
    both = emit(op.topk(data, ret_type="both", **options))  # whose positions have known bounds
    positions = emit(relax.TupleGetItem(both, 1))
    return [emit(op.gather_elements(x, positions, positive(args["dim"], x.ty.ndim))), positions]


def _median(importer: Any, node: Any) -> Any:
    """Convert median.dim: the lower of two elements in the middle, which sorting finds."""
    args = arguments(importer, node)
    x, axis = args["self"], args["dim"]
    if not isinstance(x.ty.shape[axis], tirx.IntImm):
        raise NotImplementedError("it takes the median of a symbolic size; make the size static")
    return _at_rank(importer, args, (int(x.ty.shape[axis]) - 1) // 2)


def _median_of_all(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    flat = importer.block_builder.emit(op.reshape(args["self"], [-1]))
    size = flat.ty.shape[0]
    if not isinstance(size, tirx.IntImm):
        raise NotImplementedError("it takes the median of a symbolic size; make the size static")
    args |= {"self": flat, "dim": 0, "keepdim": False}
    return _at_rank(importer, args, (int(size) - 1) // 2)[0]


def _kthvalue(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    return _at_rank(importer, args, args["k"] - 1)


def _at_rank(importer: Any, args: Mapping[str, Any], rank: int) -> list[Any]:
    """Return the element at a place of the sorted axis, and where it was."""
    emit, x, axis = importer.block_builder.emit, args["self"], args["dim"]
    both = _sorted(importer, x, axis, False)
    place = relax.const([rank] if args["keepdim"] else rank, "int64")
    return [emit(op.take(part, place, axis)) for part in both]


def _mode(importer: Any, node: Any) -> Any:
    """Convert mode: the smallest of the most frequent elements, and where it is last.

    In sorted order, it ends the first run of the largest length.
    """
    args = arguments(importer, node)
    emit, x, axis = importer.block_builder.emit, args["self"], args["dim"]
    if x.ty.ndim == 0:
        return [x, relax.const(0, "int64")]
    axis = positive(axis, x.ty.ndim)
    order = [*(k for k in range(x.ty.ndim) if k != axis), axis]
    rows = emit(op.permute_dims(x, order))
    row, positions = _sorted(importer, rows, -1, False)
    size = row.ty.shape[-1]
    place = emit(op.arange(0, size, 1, "int64"))
    before = emit(op.less_equal(place, emit(op.expand_dims(place, 1))))
    same = emit(op.equal(emit(op.expand_dims(row, -2)), emit(op.expand_dims(row, -1))))
    counts = emit(op.astype(emit(op.logical_and(same, before)), "int64"))
    length = emit(op.sum(counts, [-1]))
    at = emit(op.astype(emit(op.argmax(length, -1, keepdims=True)), "int64"))
    results = []
    for part in (row, positions):
        value = emit(op.gather_elements(part, at, -1))
        value = emit(op.permute_dims(value, [order.index(k) for k in range(x.ty.ndim)]))
        results.append(value if args["keepdim"] else emit(op.squeeze(value, [axis])))
    return results


CONVERTERS: Mapping[str, Converter] = {
    "searchsorted.Tensor": _searchsorted, "searchsorted.Scalar": _searchsorted,
    "sort.default": _sort, "sort.stable": _sort, "topk.default": _topk,
    "kthvalue.default": _kthvalue, "median.dim": _median, "median.default": _median_of_all,
    "mode.default": _mode,
}  # fmt: skip
