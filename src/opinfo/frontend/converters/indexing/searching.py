"""Orders and searches in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax, tirx

from ..nodes.arguments import Converter, arguments, tensor

op = relax.op
#: The integers that TVM's sort takes.
_SORTED_INTEGERS = ("int32", "int64")


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


def _sorted(importer: Any, x: Any, axis: int, descending: bool) -> list[Any]:
    emit = importer.block_builder.emit
    dtype = str(x.ty.dtype)
    narrow = "float" not in dtype and dtype not in _SORTED_INTEGERS
    data = emit(op.astype(x, "int32")) if narrow else x
    positions = emit(op.argsort(data, axis, descending, dtype="int64"))
    return [emit(op.gather_elements(x, positions, axis)), positions]


def _topk(importer: Any, node: Any) -> Any:
    """Convert topk; where the order of the results is undefined, they are sorted."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    both = emit(op.topk(
        x, k=args["k"], axis=args["dim"], largest=args["largest"], ret_type="both", dtype="int64"
    ))  # fmt: skip
    return both


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


CONVERTERS: Mapping[str, Converter] = {
    "searchsorted.Tensor": _searchsorted, "searchsorted.Scalar": _searchsorted,
    "sort.default": _sort, "sort.stable": _sort, "topk.default": _topk,
    "kthvalue.default": _kthvalue, "median.dim": _median, "median.default": _median_of_all,
}  # fmt: skip
