"""Slice, Split and Concat, with bounds that may be symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim
from .data_bounds import part_by_data

#: A bound from here on means "to the end": exporters write 10**9 and 2**31 - 1, besides 2**63 - 1,
#: and a symbolic size is smaller.
ENDLESS = 10**9


@converts("Slice")
def slice_node(node: OnnxNode) -> Any:
    """Slice; bounds are clamped to the sizes as ONNX does."""
    dims = node.shape(0)
    by_data = node.has(1) and any(node.value(k).elements is None for k in (1, 2))
    if by_data:
        starts, ends = _numbers(node, 1, "starts"), _numbers(node, 2, "ends")
    elif node.has(1):
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
    else:
        starts, ends = list(node.attr("starts")), list(node.attr("ends"))
    if node.has(3):
        axes = [int(x) for x in node.array(3, "axes").reshape(-1)]
    else:
        axes = list(node.attr("axes", range(len(starts))))
    steps = node.integers(4, "steps") if node.has(4) else [1] * len(starts)
    data = node.tensor(0)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if by_data and isinstance(step, int) and step:
            axis %= len(dims)
            data = part_by_data(node, data, axis, dims[axis], (start, end), step)
            continue
        data = _sliced(node, data, axis % len(dims), dims[axis], start, end, step)
    return data


def _numbers(node: OnnxNode, k: int, what: str) -> list[Any]:
    """Return the elements of a vector as scalars of Relax."""
    (count,) = node.shape(k)
    if is_expr(count):
        node.refuse(f"the number of {what} is symbolic, expected a number", count)
    vector = node.emit(relax.op.astype(node.tensor(k), "int64"))
    return [node.emit(relax.op.take(vector, relax.const(j, "int64"), 0)) for j in range(count)]


def _sliced(node: OnnxNode, data: Any, axis: int, dim: Dim, start: Dim, end: Dim, step: Dim) -> Any:
    if not isinstance(step, int) or step == 0:
        node.refuse("a step is symbolic or 0, expected a number", step)
    if step < 0:
        return _reversed(node, data, axis, dim, start, end, step)
    first, last = _clamped(node, start, dim), _clamped(node, end, dim)
    if node.arithmetic.equal(first, 0) and node.arithmetic.equal(last, dim) and step == 1:
        return data
    static = not (is_expr(dim) or is_expr(first) or is_expr(last))
    if node.arithmetic.equal(first, last) or (static and last < first):
        # TVM does not compile some slices of slices without elements.
        sizes = [0 if k == axis else size for k, size in enumerate(dims_of(data))]
        return node.emit(relax.op.zeros(sizes, str(data.ty.dtype)))
    if static:
        return node.emit(relax.op.strided_slice(data, [axis], [first], [last], [step]))
    if not node.arithmetic.proves(last >= first):
        last = node.arithmetic.maximum(first, last)
    return node.emit(
        relax.op.strided_slice(data, [axis], [first], [last], [step], assume_inbound=True)
    )


def _clamped(node: OnnxNode, bound: Dim, dim: Dim) -> Dim:
    """Return a bound within 0 and the size; a negative one counts from the end."""
    arithmetic = node.arithmetic
    if isinstance(bound, int):
        if bound >= ENDLESS:
            return dim
        if bound <= -ENDLESS:
            return 0
        return (
            arithmetic.minimum(bound, dim)
            if bound >= 0
            else arithmetic.maximum(arithmetic.add(dim, bound), 0)
        )
    if arithmetic.proves(tirx.LT(bound, tirx.IntImm("int64", 0))):
        return arithmetic.maximum(arithmetic.add(dim, bound), 0)
    if not arithmetic.proves(tirx.GE(bound, tirx.IntImm("int64", 0))):
        below = tirx.LT(bound, tirx.IntImm("int64", 0))
        bound = arithmetic.select(below, arithmetic.maximum(arithmetic.add(dim, bound), 0), bound)
    return arithmetic.minimum(bound, dim)


def _reversed(
    node: OnnxNode, data: Any, axis: int, dim: Dim, start: Dim, end: Dim, step: int
) -> Any:
    """Slice from the end: flip, then slice forwards."""
    if not (isinstance(start, int) and isinstance(end, int)):
        node.refuse("it slices backwards with symbolic bounds", start, end)
    whole = start == -1 or start >= ENDLESS
    if not isinstance(dim, int):
        if not (whole and (end <= -ENDLESS)):
            node.refuse("it slices backwards a part of a symbolic size", dim)
        first, last = 0, dim
    else:
        # ONNX clamps a start before the axis to its first element; numpy would return none.
        begin = min(max(start if start >= 0 else start + dim, 0), dim - 1)
        stop = max(end + dim, -1) if end < 0 else min(end, dim)
        first, last = dim - 1 - begin, dim - 1 - stop
    flipped = node.emit(relax.op.flip(data, axis))
    return _sliced(
        node, flipped, axis, dim, first, last if is_expr(last) else max(first, last), -step
    )


@converts("Split")
def split(node: OnnxNode) -> list[Any]:
    """Split along an axis into parts of given or equal sizes."""
    dims = node.shape(0)
    axis, count = node.axis(0, len(dims)), len(node.outputs)
    dim, data = dims[axis], node.tensor(0)
    if node.has(1):
        sizes = node.integers(1, "split")
    elif node.attr("split") is not None:
        sizes = list(node.attr("split"))
    else:
        if node.attr("num_outputs", count) != count:
            node.refuse(f"num_outputs is {node.attr('num_outputs')}, but it has {count} outputs")
        if node.attr("num_outputs") is None:  # else the last part may be smaller
            node.require(node.arithmetic.equation(node.arithmetic.modulo(dim, count), 0))
        each = node.arithmetic.floor_divide(node.arithmetic.add(dim, count - 1), count)
        rest = node.arithmetic.subtract(dim, node.arithmetic.multiply(each, count - 1))
        sizes = [each] * (count - 1) + [rest]
    for size in sizes:
        node.require(size >= 0)
    node.require(node.arithmetic.equation(sum(sizes[1:], sizes[0]), dim))
    is_static = not any(is_expr(x) for x in [dim, *sizes])
    if is_static and count > 1 and all(sizes):  # TVM takes no parts of size 0
        places = [int(x) for x in np.cumsum(sizes[:-1])]
        return [node.emit(relax.op.split(data, places, axis))]
    results, start = [], 0
    for size in sizes:
        end = node.arithmetic.add(start, size)
        results.append(part(node, data, axis, dim, start, end))
        start = end
    return results


def part(node: OnnxNode, data: Any, axis: int, dim: Dim, start: Dim, end: Dim) -> Any:
    """Return the elements from `start` and before `end` along an axis of `dim` elements."""
    if node.arithmetic.equal(start, 0) and node.arithmetic.equal(end, dim):
        return data
    symbolic = any(is_expr(x) for x in (dim, start, end))
    return node.emit(
        relax.op.strided_slice(data, [axis], [start], [end], [1], assume_inbound=symbolic)
    )


@converts("Concat")
def concat(node: OnnxNode) -> Any:
    """Concatenate; other sizes that are not provably equal are checked at run time."""
    shapes = [node.shape(k) for k in range(len(node.inputs))]
    axis = node.axis(1, len(shapes[0]))
    goal = list(shapes[0])
    for shape in shapes:
        goal = [g if isinstance(g, int) else d for g, d in zip(goal, shape, strict=True)]
    tensors = [
        node.cast_shape(node.tensor(k), [d if j == axis else g for j, (d, g) in
                                         enumerate(zip(shape, goal, strict=True))])
        for k, shape in enumerate(shapes)
    ]  # fmt: skip
    return tensors[0] if len(tensors) == 1 else relax.op.concat(tensors, axis)
