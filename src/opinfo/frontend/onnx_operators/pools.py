"""Pools, with padding that may depend on symbolic sizes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from tvm import relax, tirx

from ..formulas.largest_of_windows import largest_of_windows
from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.values import Dim
from .arithmetic.extrema import largest_of_floats
from .convolution import LAYOUTS, Window, prepadded, require_reach, window
from .shaping.padded_tensors import padded


@converts("MaxPool")
def max_pool(node: OnnxNode) -> Any:
    """Return the maximum of each window."""
    what = _window(node)
    _check_inside(node, what)
    low, whole = _lowest(node.dtype(0)), _rounded_up(node, what)
    data, what = prepadded(node, node.tensor(0), whole, low)
    pooled = _pool("max_pool", data, what, False)
    return _with_positions(node, whole, dims_of(node.builder.normalize(pooled))) if (
        node.wants(1)) else pooled  # fmt: skip


def _with_positions(node: OnnxNode, what: Window, dims: list[Dim]) -> Any:
    """Return the maxima, of the given sizes, and the places of them in the flat data."""
    sizes, swapped = node.shape(0), bool(node.attr("storage_order", 0))
    spatial = sizes[2:]

    def place(k: int, size: Any, at: Any, step: Any) -> tuple[Any, Any]:
        position = at * what.strides[k] + step * what.dilations[k] - what.before[k]
        return position, tirx.all(position >= 0, position < size)

    both = node.builder.emit_te(
        lambda data: largest_of_windows(data, dims[2:], lambda k, _: what.kernel[k], place),
        node.tensor(0), primfunc_name_hint="max_pool_positions")  # fmt: skip
    flat, value = (node.emit(relax.TupleGetItem(both, k)) for k in (0, 1))
    if swapped:
        flat = _by_columns(node, flat, spatial)
    area = functools.reduce(node.arithmetic.multiply, spatial, 1)
    planes = node.emit(relax.op.arange(0, node.arithmetic.multiply(*sizes[:2]), 1, "int64"))
    extent = node.reshape(node.shape_tensor([area]), [])
    first = node.emit(relax.op.multiply(planes, extent))
    first = node.reshape(first, [*sizes[:2], *[1] * len(spatial)])
    return [value, relax.op.add(flat, first)]


def _by_columns(node: OnnxNode, flat: Any, spatial: list[Dim]) -> Any:
    """Return positions that count along the first axis fastest, given those along the last."""
    result, scale = relax.const(0, "int64"), 1
    scales = []
    for extent in spatial:
        scales.append(scale)
        scale = node.arithmetic.multiply(scale, extent)
    for extent, own in zip(reversed(spatial), reversed(scales), strict=True):
        size, factor = (node.reshape(node.shape_tensor([d]), []) for d in (extent, own))
        digit = node.emit(relax.op.floor_mod(flat, size))
        flat = node.emit(relax.op.floor_divide(flat, size))
        result = node.emit(relax.op.add(result, relax.op.multiply(digit, factor)))
    return result


def _lowest(dtype: str) -> float:
    kind = np.dtype(dtype)
    return float("-inf") if kind.kind == "f" else float(np.iinfo(kind).min)


@converts("AveragePool")
def average_pool(node: OnnxNode) -> Any:
    """Return the mean of each window, over the data or over the padding as well."""
    include = bool(node.attr("count_include_pad", 0))
    what = _window(node)
    data, ceil = node.tensor(0), _rounded_up(node, what)
    if not include:
        _check_inside(node, what)
    if ceil is what and what.is_static:
        return _pool("avg_pool", data, what, include)
    # Elements beyond the data, or beyond its padding, count neither in the sum nor in the divisor.
    dtype = node.dtype(0)
    one = relax.const(1.0, dtype)
    ones = node.emit(relax.op.full([1, 1, *dims_of(data)[2:]], one, dtype))
    if include:
        ones = padded(node, ones, [0, 0, *what.before], [0, 0, *what.after], 1.0)
        weights = _beyond(node, ones, what, ceil)
    else:
        weights = _zero_padded(node, ones, ceil)
    sums = node.emit(_pool("avg_pool", *_zero_padded(node, data, ceil), True))
    counts = node.emit(_pool("avg_pool", *weights, True))
    return relax.op.divide(sums, node.cast_shape(counts, [1, 1, *dims_of(sums)[2:]]))


def average_of_places(node: OnnxNode) -> Any:
    """Return the sum of each window over the number of its places, of padding and beyond too."""
    data, what = _zero_padded(node, node.tensor(0), _rounded_up(node, _window(node)))
    return _pool("avg_pool", data, what, True)


def _zero_padded(node: OnnxNode, data: Any, what: Window) -> tuple[Any, Window]:
    zeros = [0] * len(what.kernel)
    data = padded(node, data, [0, 0, *what.before], [0, 0, *what.after], 0.0)
    return data, Window(what.kernel, what.strides, what.dilations, zeros, list(zeros))


def _beyond(node: OnnxNode, ones: Any, what: Window, ceil: Window) -> tuple[Any, Window]:
    """Pad with zeros what a window rounded up reads beyond the padding."""
    zeros = [0] * len(what.kernel)
    rest = [node.arithmetic.subtract(a, b) for a, b in zip(ceil.after, what.after, strict=True)]
    data = padded(node, ones, [0, 0, *zeros], [0, 0, *rest], 0.0)
    return data, Window(what.kernel, what.strides, what.dilations, zeros, list(zeros))


def _window(node: OnnxNode) -> Window:
    sizes = node.shape(0)
    if len(sizes) - 2 not in LAYOUTS:
        node.refuse(f"a pool in {len(sizes) - 2} dimensions, expected 1 to 3")
    what = window(node, list(node.attr("kernel_shape")), sizes[2:])
    if not node.attr("ceil_mode", 0):
        require_reach(node, what, sizes[2:])
    return what


def _check_inside(node: OnnxNode, what: Window) -> None:
    """Refuse padding that has room for a whole window, which has no maximum and no mean."""
    for pad, reach in zip((*what.before, *what.after), (*what.reach, *what.reach), strict=True):
        if isinstance(pad, int) and pad >= reach:
            node.refuse(f"a padding of {pad} has room for a window of {reach}, expected less")


def _rounded_up(node: OnnxNode, what: Window) -> Window:
    """Return the window with padding at the ends such that the output's size is rounded up.

    A last window that would start beyond the data and its first padding is dropped.
    """
    if not node.attr("ceil_mode", 0) or node.text("auto_pad", "NOTSET").startswith("SAME"):
        return what
    after = [
        _extended(node, n, first, last, reach, stride)
        for n, first, last, reach, stride in zip(
            node.shape(0)[2:], what.before, what.after, what.reach, what.strides, strict=True
        )
    ]
    if all(node.arithmetic.equal(a, b) for a, b in zip(after, what.after, strict=True)):
        return what
    return Window(what.kernel, what.strides, what.dilations, what.before, after)


def _extended(node: OnnxNode, extent: Dim, first: int, last: int, reach: int, stride: int) -> Dim:
    arithmetic = node.arithmetic
    slack = arithmetic.add(extent, first + last - reach)
    outputs = arithmetic.add(arithmetic.floor_divide(arithmetic.add(slack, stride - 1), stride), 1)
    start = arithmetic.multiply(arithmetic.add(outputs, -1), stride)
    inside = arithmetic.compare(
        start, arithmetic.add(extent, first), lambda a, b: a < b, lambda a, b: a >= b
    )
    outputs = arithmetic.select(inside, outputs, arithmetic.add(outputs, -1))
    covered = arithmetic.add(arithmetic.multiply(arithmetic.add(outputs, -1), stride), reach)
    missing = arithmetic.subtract(covered, arithmetic.add(extent, first))
    return arithmetic.maximum(missing, last)


def _pool(name: str, data: Any, what: Window, include: bool) -> Any:
    rank = len(what.kernel)
    op = getattr(relax.op.nn, f"{name}{rank}d")
    return op(data, what.kernel, what.strides, what.padding, what.dilations, False, include,
              LAYOUTS[rank][0])  # fmt: skip


@converts("MaxUnpool")
def max_unpool(node: OnnxNode) -> Any:
    """Put each maximum back to its place, and zeros elsewhere."""
    node.check_shape(1, node.shape(0))
    sizes, kernel = node.shape(0), list(node.attr("kernel_shape"))
    rank, arithmetic = len(kernel), node.arithmetic
    strides = list(node.attr("strides") or [1] * rank)
    pads = list(node.attr("pads") or [0] * (2 * rank))
    dims = [*sizes[:2], *(
        arithmetic.add(arithmetic.multiply(arithmetic.add(sizes[k + 2], -1), strides[k]),
                       kernel[k] - pads[k] - pads[k + rank]) for k in range(rank))]  # fmt: skip
    if node.has(2):
        given = node.integers(2, "output_shape")
        if len(given) != len(dims) or not all(map(arithmetic.equal, given, dims)):
            node.refuse(f"output_shape is {given}, expected {dims}: runtimes differ in what its "
                        "places are then; leave it out, and pad the result")  # fmt: skip
    count = functools.reduce(arithmetic.multiply, dims, 1)
    zeros = node.emit(relax.op.zeros([count], node.dtype(0)))
    flat = [node.emit(relax.op.reshape(node.tensor(k), [-1])) for k in (1, 0)]
    full = node.emit(relax.op.scatter_elements(zeros, *flat, 0))
    return node.reshape(full, dims)


@converts("GlobalAveragePool")
def global_average_pool(node: OnnxNode) -> Any:
    """Return the mean of each channel."""
    return relax.op.mean(node.tensor(0), list(range(2, node.rank(0))), keepdims=True)


@converts("GlobalMaxPool")
def global_max_pool(node: OnnxNode) -> Any:
    """Return the maximum of each channel."""
    return largest_of_floats(node, node.tensor(0), list(range(2, node.rank(0))))


@converts("LpPool")
def lp_pool(node: OnnxNode) -> Any:
    """Return the p-norm of each window."""
    what, dtype = _window(node), node.dtype(0)
    order = float(node.attr("p", 2))
    powers = node.emit(relax.op.power(relax.op.abs(node.tensor(0)), relax.const(order, dtype)))
    data, what = _zero_padded(node, powers, _rounded_up(node, what))
    mean = node.emit(_pool("avg_pool", data, what, True))
    total = relax.op.multiply(mean, relax.const(float(np.prod(what.kernel)), dtype))
    return relax.op.power(total, relax.const(1.0 / order, dtype))
