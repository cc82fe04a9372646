"""Activations that TVM converts for float32 only, or wrongly at NaN, infinity or other parameters.

TVM's `relu` of NaN is 0, and its mask is a factor, so that minus infinity becomes NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.conversion.tvm_converters import broadcast, convert
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import is_expr, same
from .arithmetic.extrema import place_of_extremum


@converts("Elu")
def elu(node: OnnxNode) -> Any:
    """Return x, or alpha * (exp(x) - 1) below 0."""
    return _elu(node, node.attr("alpha", 1.0))


@converts("Selu")
def selu(node: OnnxNode) -> Any:
    """Return gamma * elu(x)."""
    inner = node.emit(_elu(node, node.attr("alpha", 1.67326319217681884765625)))
    return relax.op.multiply(_number(node, node.attr("gamma", 1.05070102214813232421875)), inner)


def _elu(node: OnnxNode, alpha: float) -> Any:
    data, one = node.tensor(0), _number(node, 1.0)
    low = node.emit(relax.op.multiply(
        _number(node, alpha), relax.op.subtract(relax.op.exp(data), one)))  # fmt: skip
    return relax.op.where(relax.op.less(data, _number(node, 0.0)), low, data)


@converts("ThresholdedRelu")
def thresholded_relu(node: OnnxNode) -> Any:
    """Return x above alpha, else 0."""
    data, alpha = node.tensor(0), _number(node, node.attr("alpha", 1.0))
    return relax.op.where(relax.op.greater(data, alpha), data, _number(node, 0.0))


@converts("Shrink")
def shrink(node: OnnxNode) -> Any:
    """Return x + bias below -lambd, else x - bias above lambd, else 0."""
    data, bias = node.tensor(0), _number(node, node.attr("bias", 0.0))
    limit = node.attr("lambd", 0.5)
    above = relax.op.greater(data, _number(node, limit))
    high = relax.op.where(above, relax.op.subtract(data, bias), _number(node, 0))
    below = relax.op.less(data, _number(node, -limit))
    return relax.op.where(below, relax.op.add(data, bias), node.emit(high))


@converts("PRelu")
def prelu(node: OnnxNode) -> Any:
    """Return x, or slope * x below 0, with a slope that broadcasts to x."""
    own, slopes = node.shape(0), node.shape(1)
    aligned = list(zip(reversed(own), reversed(slopes), strict=False))
    if own and len(slopes) <= len(own) and all(not is_expr(a) and (b == 1 or same(a, b))
                                       for a, b in aligned):  # fmt: skip
        return convert(node)
    data, slope = broadcast(node, [node.tensor(0), node.tensor(1)])
    below = relax.op.less(data, _number(node, 0))
    return relax.op.where(below, relax.op.multiply(data, slope), data)


@converts("Hardmax")
def hardmax(node: OnnxNode) -> Any:
    """Return 1 at the first largest element along an axis, else 0."""
    dims, dtype = node.shape(0), node.dtype(0)
    axis = node.axis(1 if node.opset < 13 else -1, len(dims))
    data, extent = node.tensor(0), dims[axis]
    if node.opset < 13:  # all axes from this one on are one
        extent = 1
        for dim in dims[axis:]:
            extent = node.arithmetic.multiply(extent, dim)
        data = node.reshape(data, [*dims[:axis], extent])
    place = replace(node, op="ArgMax", inputs=[node.result(data)], attrs={"axis": axis})
    positions = node.emit(relax.op.arange(0, extent, 1, "int64"))
    rest = [1] * (data.ty.ndim - axis - 1)
    positions = node.reshape(positions, [extent, *rest])
    first = relax.op.equal(positions, node.emit(place_of_extremum(place)))
    return node.reshape(node.emit(relax.op.astype(first, dtype)), dims)


def _number(node: OnnxNode, number: float) -> Any:
    return relax.const(np.array(number).astype(node.dtype(0)), node.dtype(0))
