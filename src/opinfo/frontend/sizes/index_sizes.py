"""Sizes of what is read or written at indices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...analysis.support.ir.tensor_dims import tensor_dims
from ...analysis.support.tvm_compat import GenericConst, array_of
from .broadcast_sizes import broadcast, fields, is_one
from .requirement import Requirement, at_least, at_most, equal, int64, number, size_of


def of_take(call: Any) -> Iterator[Requirement]:
    """Indices that are constant are inside; other modes than "fast" say what one outside reads."""
    data, indices = tensor_dims(call.args[0]), call.args[1]
    if data is None or not isinstance(indices, GenericConst) or str(call.attrs.mode) != "fast":
        return
    values = array_of(indices).numpy()
    axis = call.attrs.axis
    if values.size and (axis is not None or len(data) == 1):
        axis = int(axis or 0)
        yield at_least("the smallest index", int(values.min()), 0)
        yield Requirement(size_of(0, axis), data[axis], "more than ", int(values.max()))


def of_gather_elements(call: Any) -> Iterator[Requirement]:
    """Indices read as many elements of the other axes as they have."""
    yield from _within(call, 0, 1)


def of_gather_nd(call: Any) -> Iterator[Requirement]:
    """Indices are those of as many batches as the data have."""
    data, indices = map(tensor_dims, call.args)
    if data is not None and indices is not None:
        for axis in range(int(call.attrs.batch_dims)):
            yield equal(size_of(1, axis), indices[axis], data[axis])


def of_scatter_elements(call: Any) -> Iterator[Requirement]:
    """Each index has an update, and the data have as many elements of the other axes.

    TVM's code for means needs no less along axes that it does not count.
    """
    indices, updates = (tensor_dims(arg) for arg in call.args[1:])
    if indices is not None and updates is not None:
        for axis, (a, b) in enumerate(zip(updates, indices, strict=True)):
            yield equal(size_of(2, axis), a, b)
    yield from _within(call, 0, 1)
    data = tensor_dims(call.args[0])
    if str(call.attrs.reduction) == "mean" and data is not None and indices is not None:
        own = int(call.attrs.axis) % len(data)
        for axis in set(range(len(data))) - {0, own, own + 1}:
            yield equal(size_of(1, axis), indices[axis], data[axis])


def _within(call: Any, whole: int, part: int) -> Iterator[Requirement]:
    """One operand is at most as large as another one along all axes but that of the operator."""
    most, dims = tensor_dims(call.args[whole]), tensor_dims(call.args[part])
    if most is None or dims is None or any(number(d) == 0 for d in dims):
        return
    own = int(call.attrs.axis) % len(dims)
    for axis, (a, b) in enumerate(zip(dims, most, strict=True)):
        if axis != own:
            yield at_most(size_of(part, axis), a, b)


def of_index_put(call: Any) -> Iterator[Requirement]:
    """TVM's code reads a value for each element of the broadcast indices."""
    values, shapes = tensor_dims(call.args[2]), fields(call.args[1])
    indices = {k: dims for k, dims in enumerate(shapes) if dims is not None}
    if values is None or not values or len(indices) < len(shapes):
        return
    yield from broadcast(indices)
    rank = max(map(len, indices.values()), default=0)
    columns = ([d[-k] for d in indices.values() if k <= len(d) and not is_one(d[-k])]
               for k in range(1, rank + 1))  # fmt: skip
    count = math.prod((sizes[0] for sizes in columns if sizes), start=int64(1))
    yield equal("the number of values", math.prod(values, start=int64(1)), count)


def of_anchors(call: Any) -> Iterator[Requirement]:
    """Each anchor has four numbers of a place."""
    scores, places = (tensor_dims(arg) for arg in call.args[:2])
    if scores is not None and places is not None:
        yield equal(size_of(1, 1), places[1], scores[2] * 4)


def of_topk(call: Any) -> Iterator[Requirement]:
    """There are as many elements as are asked for."""
    data = tensor_dims(call.args[0])
    if data is not None:
        axis = int(call.attrs.axis)
        yield at_least(size_of(0, axis % len(data)), data[axis], int(call.attrs.k))
