"""Lookups and updates by tensors of indices."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from tvm import relax

from ..nodes.arguments import Converter, arguments
from .chosen_elements import taken_by_mask
from .masks import is_mask, put_by_mask
from .updates import points_updated

#: Operators of torch that only move elements.
_MOVES = ("unsqueeze", "view", "expand", "slice", "_to_copy", "clone", "select", "permute",
          "reshape", "squeeze", "repeat")  # fmt: skip
#: A position outside of every tensor.
_OUTSIDE = -(2**62)


def _index(importer: Any, node: Any) -> Any:
    """Convert ``x[i, j]``: the indexed axes become one, of which elements are taken.

    Before: `x[:, i, j]` with i and j of one shape; after: `take(reshape(x, (a, b * c)), i * c + j,
    axis=1)`.
    """
    args = arguments(importer, node)
    x, indices = args["self"], list(args["indices"])
    if node in importer.chosen:
        return x
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) == 1 and is_mask(node.args[1][axes[0]]):
        return taken_by_mask(importer, node, x, indices[axes[0]], axes[0])
    _check_indices(node, axes)
    mode = "fast" if all(counted_from_front(importer, node.args[1][a]) for a in axes) else "wrap"
    emit, shape, rank = importer.block_builder.emit, list(x.ty.shape), x.ty.ndim
    first = _place(axes)
    if axes != list(range(first, first + len(axes))):
        order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
        x = emit(relax.op.permute_dims(x, order))
        shape = [shape[axis] for axis in order]
    extents = shape[first : first + len(axes)]
    if len(axes) > 1:
        whole = functools.reduce(operator.mul, extents)
        x = emit(relax.op.reshape(x, [*shape[:first], whole, *shape[first + len(axes) :]]))
    if len(axes) == 1 and mode == "fast":
        return emit(relax.op.take(x, indices[first], first))
    flat = flat_positions(
        importer, [indices[axis] for axis in axes], extents, mode, _may_be_outside(node, axes)
    )
    return emit(relax.op.take(x, flat, first))


def _check_indices(node: Any, axes: list[int]) -> None:
    for axis in axes:
        if is_mask(node.args[1][axis]):
            raise NotImplementedError("it selects by a mask and other indices, so its shape "
                                      "depends on the data; use torch.where")  # fmt: skip


def _may_be_outside(node: Any, axes: list[int]) -> list[bool]:
    """Return which indices of `x[i, j]` may be outside of their axis, by their origin."""
    shape = node.args[0].meta["val"].shape
    return [not _counts(node.args[1][axis], shape[axis]) for axis in axes]


def _counts(node: Any, size: Any) -> bool:
    """Return whether a tensor holds numbers of `arange(n)` for an n that is a size, or less."""
    if node.op != "call_function":
        return False
    name = node.target.__name__.partition(".")[0]
    if name in _MOVES:
        return _counts(node.args[0], size)
    if name != "arange" or not (len(node.args) == 1 or (node.args[0] == 0 and len(node.args) == 2)):
        return False
    count = node.meta["val"].shape[0]
    if isinstance(count, int) and isinstance(size, int):
        return count <= size
    return (
        not isinstance(count, int)
        and not isinstance(size, int)
        and (count.node.expr == size.node.expr)
    )


def flat_positions(
    importer: Any, indices: list[Any], extents: list[Any], mode: str, unknown: list[bool]
) -> Any:
    """Return the position in several axes at once; indices below 0 count from the end.

    An index that is outside of its axis may still be a position inside of all: where one of the
    ``unknown`` is, the position is outside of all, which is checked.
    """
    emit = importer.block_builder.emit
    total, outside = None, None
    for index, extent, checked in zip(indices, extents, unknown, strict=True):
        index = emit(relax.op.astype(index, "int64"))
        size = importer._number(extent, "int64")
        if mode == "wrap":
            below = relax.op.less(index, relax.const(0, "int64"))
            index = emit(relax.op.where(below, relax.op.add(index, size), index))
        if checked and len(indices) > 1:
            low = emit(relax.op.less(index, relax.const(0, "int64")))
            bad = emit(relax.op.logical_or(low, emit(relax.op.greater_equal(index, size))))
            outside = bad if outside is None else emit(relax.op.logical_or(outside, bad))
        total = index if total is None else relax.op.add(relax.op.multiply(total, size), index)
        total = emit(total)
    if outside is not None:
        total = emit(relax.op.where(outside, relax.const(_OUTSIDE, "int64"), total))
    return total


def counted_from_front(importer: Any, node: Any) -> bool:
    """Return whether no element of an index is below 0, by its origin."""
    known = importer.constant(node)
    if known is not None:
        return bool((known >= 0).all())
    if node.op != "call_function":
        return False
    name = node.target.__name__.partition(".")[0]
    if name == "arange":
        return all(isinstance(a, int) and a >= 0 for a in node.args[:-1]) and not node.kwargs.get(
            "step"
        )
    if name in _MOVES:
        return counted_from_front(importer, node.args[0])
    return name in ("argmax", "argmin")


def _index_put(importer: Any, node: Any) -> Any:
    """Convert ``x[i, j] = values`` and ``x[i, j] += values``: the indexed axes go first and become
    one, whose rows are updated.
    """
    if any(map(is_mask, node.args[1])):
        return put_by_mask(importer, node)
    args = arguments(importer, node)
    x, indices = args["self"], list(args["indices"])
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    extents = [x.ty.shape[axis] for axis in axes]
    mode = "fast" if all(counted_from_front(importer, node.args[1][a]) for a in axes) else "wrap"
    flat = flat_positions(
        importer, [indices[axis] for axis in axes], extents, mode, _may_be_outside(node, axes)
    )
    return put_rows(importer, x, axes, flat, args["values"], bool(args["accumulate"]))


def put_rows(
    importer: Any, x: Any, axes: list[int], flat: Any, values: Any, accumulate: bool
) -> Any:
    """Return `x` with values at positions of some of its axes.

    Args:
        importer: The importer.
        x: The tensor.
        axes: The indexed axes.
        flat: Positions in these axes at once, counted from 0.
        values: What is written, of a shape that is broadcast to that of `x[i, j]`.
        accumulate: Whether values are added.
    """
    emit, shape = importer.block_builder.emit, list(x.ty.shape)
    if any(importer._equal(size, 0) for size in flat.ty.shape):
        return x
    others = [axis for axis in range(x.ty.ndim) if axis not in axes]
    rest, extents = [shape[axis] for axis in others], [shape[axis] for axis in axes]
    flat = emit(relax.op.astype(flat, "int64"))
    count = functools.reduce(operator.mul, flat.ty.shape, 1)
    rows = _rows(importer, values, list(flat.ty.shape), rest, _place(axes))
    data = emit(relax.op.reshape(
        emit(relax.op.permute_dims(x, [*axes, *others])),
        [functools.reduce(operator.mul, extents), *rest]))  # fmt: skip
    out = points_updated(
        importer, data, emit(relax.op.reshape(flat, [count, 1])),
        emit(relax.op.reshape(rows, [count, *rest])), "add" if accumulate else "update",
    )  # fmt: skip
    order = [*axes, *others]
    out = emit(relax.op.reshape(out, [shape[axis] for axis in order]))
    return emit(relax.op.permute_dims(out, [order.index(axis) for axis in range(x.ty.ndim)]))


def _place(axes: list[int]) -> int:
    """Return where the indexed axes are in ``x[i, j]``: in place if adjacent, else first."""
    return axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0


def _rows(importer: Any, values: Any, picked: list[Any], rest: list[Any], place: int) -> Any:
    """Return values as in ``x[i, j]`` with the axes of the index first."""
    emit = importer.block_builder.emit
    rows = emit(relax.op.broadcast_to(values, [*rest[:place], *picked, *rest[place:]]))
    if place == 0:
        return rows
    index = range(place, place + len(picked))
    others = [axis for axis in range(len(picked) + len(rest)) if axis not in index]
    return emit(relax.op.permute_dims(rows, [*index, *others]))


def _take(importer: Any, node: Any) -> Any:
    """Take elements at positions in the flat tensor; those below 0 count from the end."""
    args = arguments(importer, node)
    x = importer.block_builder.emit(relax.op.reshape(args["self"], [-1]))
    flat = flat_positions(importer, [args["index"]], [x.ty.shape[0]], "wrap", [True])
    return importer.block_builder.emit(relax.op.take(x, flat, 0))


def _put(importer: Any, node: Any) -> Any:
    """Write elements at positions in the flat tensor; those below 0 count from the end."""
    args, emit = arguments(importer, node), importer.block_builder.emit
    x = emit(relax.op.reshape(args["self"], [-1]))
    places = emit(relax.op.reshape(args["index"], [-1, 1]))
    places = flat_positions(importer, [places], [x.ty.shape[0]], "wrap", [True])
    out = points_updated(
        importer, x, places, emit(relax.op.reshape(args["source"], [-1])),
        "add" if args["accumulate"] else "update")  # fmt: skip
    return emit(relax.op.reshape(out, importer._sizes(node)))


CONVERTERS: Mapping[str, Converter] = {
    "index.Tensor": _index, "index_put.default": _index_put,
    "take.default": _take, "put.default": _put,
}  # fmt: skip
