"""Integer products and dynamic quantisation.

A product of 8-bit integers is exact in float32 while no partial sum exceeds 2**24. Where constant
weights prove that, it is computed there, which is as fast as any float product; else in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.conversion.converter_table import MICROSOFT, converts
from ..onnx_graph.onnx_node import OnnxNode
from .convolution import convolved

#: The largest integer up to which float32 holds all integers.
EXACT = 1 << 24


def extremes(dtype: str) -> tuple[int, int]:
    """Return the least and greatest number of an integer dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _shifted(node: OnnxNode, k: int, zero: int, shape: list[int] | None, to: str) -> Any:
    """Return input `k` minus its zero points, which take a shape if there are several, as `to`."""
    if node.value(k).is_constant and (not node.has(zero) or node.value(zero).is_constant):
        array = node.array(k, "weights").astype("int32")
        if node.has(zero):
            points = node.array(zero, "zero point").astype("int32")
            several = points.reshape(shape) if shape else points
            array = array - (several if points.size > 1 else points.reshape(-1)[0])
        return relax.const(array.astype(to), to)
    data = node.emit(relax.op.astype(node.tensor(k), to))
    if not node.has(zero) or _is_zero(node, zero):
        return data
    point = node.emit(relax.op.astype(node.tensor(zero), to))
    if shape and node.shape(zero) not in ([], [1]):
        point = node.emit(relax.op.reshape(point, shape))
    return node.emit(relax.op.subtract(data, point))


def _is_zero(node: OnnxNode, k: int) -> bool:
    value = node.value(k)
    return bool(value.is_constant and not np.any(value.elements))


def _dtype(node: OnnxNode, terms: Any, depth: Any = None) -> str:
    """Return in which dtype a product is exact, given the sum of weights' magnitudes.

    Args:
        node: The node; input 0 is the data.
        terms: Returns for an array of weights minus zero points the sums of magnitudes that meet in
            one element of the result.
        depth: How many products are added up, which bounds sums of weights that are not constant.
    """
    if not node.value(1).is_constant or (node.has(3) and not node.value(3).is_constant):
        exact = isinstance(depth, int) and depth * 255 * 255 < EXACT
        return "float32" if exact else "int32"
    weights = node.array(1, "weights").astype("int64")
    if node.has(3):
        points = node.array(3, "zero point").astype("int64")
        low, high = extremes(node.dtype(1))
        most = np.maximum(abs(weights - low), abs(weights - high))
        weights = most if points.size > 1 else weights - points.reshape(-1)[0]
    low, high = extremes(node.dtype(0))
    most = (high - low) if node.has(2) and not _is_zero(node, 2) else max(abs(low), high)
    return "float32" if int(terms(np.abs(weights))) * most < EXACT else "int32"


@converts("MatMulInteger")
def matmul_integer(node: OnnxNode) -> Any:
    """Multiply matrices of 8-bit integers minus their zero points, to int32."""
    terms = -1 if node.rank(1) == 1 else -2
    to = _dtype(node, lambda w: w.sum(terms).max(initial=0), node.shape(0)[-1])
    rows = [*node.shape(2), 1] if node.has(2) and len(node.shape(2)) == 1 else None
    left = _shifted(node, 0, 2, rows, to)
    right = _shifted(node, 1, 3, None, to)
    return relax.op.astype(node.emit(relax.op.matmul(left, right, out_dtype=to)), "int32")


@converts("ConvInteger")
def conv_integer(node: OnnxNode) -> Any:
    """Convolve 8-bit integers minus their zero points, to int32."""
    to = _dtype(node, lambda w: w.reshape(w.shape[0], -1).sum(-1).max(initial=0))
    each = [-1] + [1] * (node.rank(1) - 1)
    data, weights = _shifted(node, 0, 2, None, to), _shifted(node, 1, 3, each, to)
    result = convolved(node, data, weights, None if to == "float32" else to)
    return relax.op.astype(result, "int32")


@converts("DynamicQuantizeLinear")
def dynamic_quantize(node: OnnxNode) -> list[Any]:
    """Round to uint8 with a scale and a zero point from the extremes of the data."""
    codes, scale, point = rounded(node, node.tensor(0))
    return [node.emit(relax.op.astype(codes, "uint8")), scale,
            node.emit(relax.op.astype(point, "uint8"))]  # fmt: skip


def rounded(node: OnnxNode, data: Any) -> tuple[Any, Any, Any]:
    """Return codes from 0 to 255, the scale and the zero point, all as float32."""
    zero, most = relax.const(0.0, "float32"), relax.const(255.0, "float32")
    low = node.emit(relax.op.minimum(zero, relax.op.min(data)))
    high = node.emit(relax.op.maximum(zero, relax.op.max(data)))
    scale = node.emit(relax.op.divide(relax.op.subtract(high, low), most))
    flat = node.emit(relax.op.equal(low, high))
    scale = node.emit(relax.op.where(flat, relax.const(1.0, "float32"), scale))
    point = node.emit(relax.op.round(relax.op.clip(
        relax.op.subtract(zero, relax.op.divide(low, scale)), 0.0, 255.0)))  # fmt: skip
    codes = node.emit(relax.op.round(relax.op.divide(data, scale)))
    codes = node.emit(relax.op.clip(relax.op.add(codes, point), 0.0, 255.0))
    return codes, scale, point


@converts("QLinearMatMul")
def qlinear_matmul(node: OnnxNode) -> Any:
    """Dequantize, multiply, quantize."""
    left, right = (_dequantized(node, k, axis) for k, axis in ((0, -2), (3, -1)))
    return _quantized(node, node.emit(relax.op.matmul(left, right)), 6)


@converts("QLinearConv")
def qlinear_conv(node: OnnxNode) -> Any:
    """Dequantize, convolve, add the bias, quantize."""
    data, weights = _dequantized(node, 0, 1), _dequantized(node, 3, 0)
    moved = _Renumbered(node, {0: 0, 1: 3})
    result = convolved(moved, data, weights)  # type: ignore[arg-type]
    if node.has(8):
        scale = node.emit(relax.op.multiply(node.tensor(1), node.tensor(4)))
        bias = node.emit(relax.op.multiply(relax.op.astype(node.tensor(8), "float32"), scale))
        shape = [1, -1] + [1] * (node.rank(0) - 2)
        result = node.emit(relax.op.add(result, relax.op.reshape(bias, shape)))
    return _quantized(node, result, 6)


class _Renumbered:
    """A node whose inputs are in another order."""

    def __init__(self, node: OnnxNode, order: dict[int, int]) -> None:
        self._node, self._order = node, order

    def shape(self, k: int) -> Any:
        return self._node.shape(self._order[k])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def _dequantized(node: OnnxNode, k: int, axis: int) -> Any:
    scale = _scalar(node, k + 1)
    point = _scalar(node, k + 2) if node.has(k + 2) else relax.const(0, node.dtype(k))
    return node.emit(relax.op.dequantize(node.tensor(k), scale, point, axis % node.rank(k)))


def _scalar(node: OnnxNode, k: int) -> Any:
    """Return a scale or zero point, as a scalar if it has one element."""
    data = node.tensor(k)
    return node.emit(relax.op.reshape(data, ())) if node.shape(k) == [1] else data


def _quantized(node: OnnxNode, result: Any, k: int) -> Any:
    """Round to the dtype of the zero point, halves to even as ONNX does."""
    point = _scalar(node, k + 1) if node.has(k + 1) else None
    return codes_of(
        node, result, _scalar(node, k), point, node.dtype(0 if point is None else k + 1)
    )


def codes_of(node: OnnxNode, data: Any, scale: Any, point: Any, dtype: str) -> Any:
    """Return numbers divided by a scale and rounded, halves to even, plus a zero point or None."""
    low, high = extremes(dtype)
    codes = node.emit(relax.op.round(relax.op.divide(data, scale)))
    if point is not None:
        codes = relax.op.add(codes, relax.op.astype(point, str(data.ty.dtype)))
    codes = node.emit(relax.op.clip(node.emit(codes), float(low), float(high)))
    return relax.op.astype(codes, dtype)


def _elementwise(combine: Any) -> Any:
    def convert(node: OnnxNode) -> Any:
        check_attributes(node, "", {})
        left, right = _dequantized(node, 0, 0), _dequantized(node, 3, 0)
        return _quantized(node, node.emit(combine(left, right)), 6)

    return convert


converts("QLinearAdd", domain=MICROSOFT)(_elementwise(relax.op.add))
converts("QLinearMul", domain=MICROSOFT)(_elementwise(relax.op.multiply))
