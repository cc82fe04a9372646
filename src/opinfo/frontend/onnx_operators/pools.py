"""Pools, with padding that may depend on symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.tvm_converters import convert
from ..onnx_graph.values import Dim
from .convolution import LAYOUTS, Window, prepadded, require_reach, window
from .shaping.slices_and_pads import padded


@converts("MaxPool")
def max_pool(node: OnnxNode) -> Any:
    """Return the maximum of each window."""
    if node.wants(1):
        node.refuse("the indices of a MaxPool are read, which has no lowering")
    what = _window(node)
    _check_inside(node, what)
    low = _lowest(node.dtype(0))
    data, what = prepadded(node, node.tensor(0), _rounded_up(node, what), low)
    return _pool(node, "max_pool", data, what, False)


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
        return _pool(node, "avg_pool", data, what, include)
    # Elements beyond the data, or beyond its padding, count neither in the sum nor in the divisor.
    dtype = node.dtype(0)
    one = relax.const(1.0, dtype)
    ones = node.emit(relax.op.full([1, 1, *dims_of(data)[2:]], one, dtype))
    if include:
        ones = padded(node, ones, [0, 0, *what.before], [0, 0, *what.after], 1.0)
        weights = _beyond(node, ones, what, ceil)
    else:
        weights = _zero_padded(node, ones, ceil)
    sums = node.emit(_pool(node, "avg_pool", *_zero_padded(node, data, ceil), True))
    counts = node.emit(_pool(node, "avg_pool", *weights, True))
    return relax.op.divide(sums, node.cast_shape(counts, [1, 1, *dims_of(sums)[2:]]))


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


def _pool(node: OnnxNode, name: str, data: Any, what: Window, include: bool) -> Any:
    rank = len(what.kernel)
    op = getattr(relax.op.nn, f"{name}{rank}d")
    return op(data, what.kernel, what.strides, what.padding, what.dilations, False, include,
              LAYOUTS[rank][0])  # fmt: skip


@converts("MaxUnpool")
def max_unpool(node: OnnxNode) -> Any:
    """Put each maximum back to its place; TVM reads as many places as there are maxima."""
    node.check_shape(1, node.shape(0))
    return convert(node)


@converts("GlobalAveragePool")
def global_average_pool(node: OnnxNode) -> Any:
    """Return the mean of each channel."""
    return relax.op.mean(node.tensor(0), list(range(2, node.rank(0))), keepdims=True)


@converts("GlobalMaxPool")
def global_max_pool(node: OnnxNode) -> Any:
    """Return the maximum of each channel."""
    return relax.op.max(node.tensor(0), list(range(2, node.rank(0))), keepdims=True)


@converts("LpPool")
def lp_pool(node: OnnxNode) -> Any:
    """Return the p-norm of each window."""
    what, dtype = _window(node), node.dtype(0)
    order = float(node.attr("p", 2))
    powers = node.emit(relax.op.power(relax.op.abs(node.tensor(0)), relax.const(order, dtype)))
    data, what = _zero_padded(node, powers, _rounded_up(node, what))
    mean = node.emit(_pool(node, "avg_pool", data, what, True))
    total = relax.op.multiply(mean, relax.const(float(np.prod(what.kernel)), dtype))
    return relax.op.power(total, relax.const(1.0 / order, dtype))
