"""Sizes of operands that are multiplied and summed, and of channels in groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tvm import tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from .broadcast_sizes import broadcast, fields, is_one
from .requirement import Requirement, at_least, equal, multiple, size_of


def of_matmul(call: Any) -> Iterator[Requirement]:
    """Columns of the first operand are rows of the second one."""
    a, b = map(tensor_dims, call.args)
    if a and b:
        rows = max(len(b) - 2, 0)
        yield equal(size_of(0, len(a) - 1), a[-1], b[rows])
        yield from broadcast({0: a[:-2], 1: b[:-2]})


def of_convolution(call: Any) -> Iterator[Requirement]:
    """The channels are those of the kernels in all groups; packed axes count as one."""
    data, kernel = map(tensor_dims, call.args)
    if data is None or kernel is None:
        return
    layout, groups = str(call.attrs.kernel_layout), int(call.attrs.groups)
    channels = _extent(data, str(call.attrs.data_layout), "C")
    own, filters = (_extent(kernel, layout, axis) for axis in "IO")
    transposed = "transpose" in call.op.name
    yield equal("the number of channels", channels, own if transposed else own * groups)
    if groups > 1:
        yield multiple("the number of input channels" if transposed else "the number of filters",
                       own if transposed else filters, groups)  # fmt: skip


def _extent(dims: list[Any], layout: str, axis: str) -> Any:
    """The extent of an axis, of which a layout such as NCHW4c may have a part elsewhere."""
    letters = [letter for letter in layout if letter.isalpha()]
    parts = (dim for letter, dim in zip(letters, dims, strict=True) if letter.upper() == axis)
    return math.prod(parts, start=tirx.IntImm("int64", 1))


def of_einsum(call: Any) -> Iterator[Requirement]:
    """Axes of one letter are equal, unless one is 1."""
    terms = str(call.attrs.subscripts).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, tuple[str, Any]] = {}
    rest: dict[int, list[Any]] = {}
    for k, (term, dims) in enumerate(zip(terms, fields(call.args[0]), strict=False)):
        if dims is None:
            continue
        front, dots, back = term.partition("...")
        end = len(dims) - len(back)
        if dots:
            rest[k] = dims[len(front) : end]
        labels = [*enumerate(front), *((end + j, letter) for j, letter in enumerate(back))]
        for axis, letter in labels:
            if axis < len(dims) and not is_one(dims[axis]):  # it is broadcast
                place = (f"size {axis} of tensor {k}", dims[axis])
                yield equal(*sizes.setdefault(letter, place), dims[axis])
    yield from broadcast(rest)


def of_attention(call: Any) -> Iterator[Requirement]:
    """Each head of keys and values serves as many heads of queries."""
    query, key = (tensor_dims(arg) for arg in call.args[:2])
    if query is None or key is None:
        return
    heads, shared = query[2], key[2]
    if not heads.same_as(shared):
        yield at_least(size_of(1, 2), shared, 1)
        yield multiple(size_of(0, 2), heads, tirx.max(shared, tirx.IntImm("int64", 1)))


def of_groups(call: Any) -> Iterator[Requirement]:
    """Channels are in groups of one size."""
    dims = tensor_dims(call.args[0])
    if dims is not None:
        axis = int(call.attrs.channel_axis)
        yield multiple(size_of(0, axis % len(dims)), dims[axis], int(call.attrs.num_groups))
