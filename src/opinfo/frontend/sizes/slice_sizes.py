"""Ranges of slices, and sizes of what is cut out or written in their place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tvm import relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from .broadcast_sizes import Dims
from .requirement import Requirement, at_least, at_most, equal, int64, number, size_of


def of_slice(call: Any) -> Iterator[Requirement]:
    """What is assumed to be inside is inside."""
    data, parts = tensor_dims(call.args[0]), call.args[1:]
    known = all(isinstance(part, relax.Tuple) for part in parts)
    if data is None or not known or not call.attrs.assume_inbound:
        return
    ones = relax.Tuple([relax.prim_value(1)] * len(parts[0].fields))
    ranges = (part.fields for part in (*parts, ones)[:4])
    for axis, begin, end, stride in zip(*ranges, strict=True):
        k, step = int(axis) % len(data), number(stride)
        begin, end = int64(begin), int64(end)
        yield at_least(f"the begin along axis {k}", begin, 0)
        if step is not None and step < 0:
            yield from _backward(call, data, k, (begin, end, step))
            continue
        if step is None:
            yield at_least(f"the stride along axis {k}", stride, 1)
            step = tirx.max(int64(stride), int64(1))  # a division by 0 would end the process
        last = begin + tirx.floordiv(end - begin - 1, step) * step
        yield at_least(f"the end along axis {k}", end, begin)
        yield at_most(f"the end along axis {k}", end if number(stride) == 1 else last + 1, data[k])


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
    if all(number(x) is not None for x in (*data, begin, end)):
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


def of_slice_scatter(call: Any) -> Iterator[Requirement]:
    """The source has the sizes of the slice."""
    data, source = (tensor_dims(arg) for arg in call.args[:2])
    start, end, step = (number(getattr(arg, "value", arg)) for arg in call.args[2:5])
    if data is None or source is None:
        return
    own = int(call.attrs.axis) % len(data)
    for axis, (a, b) in enumerate(zip(source, data, strict=True)):
        if axis != own:
            yield equal(size_of(1, axis), a, b)
        elif start is not None and end is not None and step is not None:
            yield equal(size_of(1, axis), a, -((start - end) // step))
