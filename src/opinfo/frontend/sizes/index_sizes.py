"""Sizes of what is read or written at indices, and ranges of slices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from tvm import relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from ...analysis.support.tvm_compat import GenericConst, array_of
from .broadcast_sizes import Dims, broadcast, fields, is_one
from .requirement import Requirement, at_least, at_most, equal, size_of


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


def of_slice(call: Any) -> Iterator[Requirement]:
    """What is assumed to be inside is inside."""
    data, parts = tensor_dims(call.args[0]), call.args[1:]
    known = all(isinstance(part, relax.Tuple) for part in parts)
    if data is None or not known or not call.attrs.assume_inbound:
        return
    ones = relax.Tuple([relax.prim_value(1)] * len(parts[0].fields))
    ranges = (part.fields for part in (*parts, ones)[:4])
    for axis, begin, end, stride in zip(*ranges, strict=True):
        k, step = int(axis) % len(data), _number(stride)
        begin, end = _int64(begin), _int64(end)
        yield at_least(f"the begin along axis {k}", begin, 0)
        if step is not None and step > 0:
            last = begin + tirx.floordiv(end - begin - 1, step) * step
            yield at_least(f"the end along axis {k}", end, begin)
            yield at_most(f"the end along axis {k}", end if step == 1 else last + 1, data[k])
        elif step is not None:
            yield from _backward(call, data, k, (begin, end, step))


def _backward(
    call: Any, data: Dims, axis: int, part: tuple[Any, Any, int]
) -> Iterator[Requirement]:
    """A slice backwards has all elements of its type, which TVM counts as if the end were included.

    TVM's code reads as many, also before the axis, unless all sizes are numbers.
    """
    begin, end, step = part
    dims = tensor_dims(call)
    if dims is None:
        return
    yield at_most(f"the begin along axis {axis}", begin, data[axis] - 1)
    yield at_least(f"the last index along axis {axis}", begin + (dims[axis] - 1) * step, 0)
    if all(_number(x) is not None for x in (*data, begin, end)):
        yield equal(f"size {axis} of the result", dims[axis],
                    len(range(int(begin), int(end), step)))  # fmt: skip


def of_split(call: Any) -> Iterator[Requirement]:
    """Parts begin inside, one after another: TVM's code does not clip them, unlike its type."""
    data, parts = tensor_dims(call.args[0]), call.attrs.indices_or_sections
    if data is None or isinstance(parts, tirx.IntImm):
        return
    axis, begins = int(call.attrs.axis) % len(data), [int(begin) for begin in parts]
    for a, b in itertools.pairwise((0, *begins)):
        yield Requirement(f"a split of axis {axis}", b, "more than ", a)
    if begins:
        yield at_least(size_of(0, axis), data[axis], begins[-1])


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
    """Each index has an update, and the other axes have as many elements."""
    indices, updates = (tensor_dims(arg) for arg in call.args[1:])
    if indices is not None and updates is not None:
        for axis, (a, b) in enumerate(zip(updates, indices, strict=True)):
            yield equal(size_of(2, axis), a, b)
    yield from _within(call, 0, 1)


def _within(call: Any, whole: int, part: int) -> Iterator[Requirement]:
    """One operand is no larger than another one along all axes but that of the operator."""
    most, dims = tensor_dims(call.args[whole]), tensor_dims(call.args[part])
    if most is None or dims is None or any(_number(d) == 0 for d in dims):
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
    count = math.prod((sizes[0] for sizes in columns if sizes), start=_int64(1))
    yield equal("the number of values", math.prod(values, start=_int64(1)), count)


def of_slice_scatter(call: Any) -> Iterator[Requirement]:
    """The source has the sizes of the slice."""
    data, source = (tensor_dims(arg) for arg in call.args[:2])
    start, end, step = (_number(getattr(arg, "value", arg)) for arg in call.args[2:5])
    if data is None or source is None:
        return
    own = int(call.attrs.axis) % len(data)
    for axis, (a, b) in enumerate(zip(source, data, strict=True)):
        if axis != own:
            yield equal(size_of(1, axis), a, b)
        elif start is not None and end is not None and step is not None:
            yield equal(size_of(1, axis), a, -((start - end) // step))


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


def _number(x: Any) -> int | None:
    return int(x) if isinstance(x, (int, tirx.IntImm)) else None


def _int64(x: Any) -> Any:
    return tirx.IntImm("int64", int(x)) if isinstance(x, (int, tirx.IntImm)) else x
