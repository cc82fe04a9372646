"""Products and layers of 8-bit integers that ONNX Runtime adds in its own domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.contributed_attributes import check_absent, check_attributes
from ..onnx_graph.conversion.converter_table import MICROSOFT, converts
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.values import TensorValue, of_expr
from .attention.multi_head import MaskInputs, of_projections
from .pools import average_of_places, average_pool
from .quantize_linear import dequantize_linear, quantize_linear
from .quantized import codes_of, matmul_integer, rounded

#: The version of ONNX's operators of the same names.
OPSET = 13


def _input(node: OnnxNode, k: int) -> Any:
    return node.inputs[k] if node.has(k) else None


def _integers(node: OnnxNode, operands: list[Any], bias: Any = None) -> Any:
    """Return the product of two matrices minus their zero points, plus int32, as float32."""
    inner = replace(node, op="MatMulInteger", domain="", opset=OPSET, inputs=operands)
    product = node.emit(matmul_integer(inner))
    if bias is not None:  # before the sum is rounded to float32
        product = node.emit(relax.op.add(product, bias))
    return node.emit(relax.op.astype(product, "float32"))


def _scaled(node: OnnxNode, product: Any, scales: list[Any], bias: int) -> Any:
    """Return a product times its scales plus an input, if there is one."""
    factor = scales[0]
    for other in scales[1:]:
        factor = node.emit(relax.op.multiply(factor, other))
    result = node.emit(relax.op.multiply(product, factor))
    return relax.op.add(result, node.tensor(bias)) if node.has(bias) else result


def _number(node: OnnxNode, k: int) -> Any:
    """Return a scale or a zero point of one element, as a scalar."""
    if node.shape(k) not in ([], [1]):
        node.refuse(f"input {k} has the shape {node.shape(k)}, expected one number")
    return node.reshape(node.tensor(k), []) if node.shape(k) else node.tensor(k)


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: OnnxNode) -> Any:
    """Multiply matrices of 8-bit integers minus their zero points, times their scales."""
    check_attributes(node, "", {})
    product = _integers(node, [*node.inputs[:2], _input(node, 4), _input(node, 5)])
    return _scaled(node, product, [_number(node, 2), node.tensor(3)], 6)


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: OnnxNode) -> Any:
    """Round the rows to uint8 with a scale of their own, and multiply."""
    check_attributes(node, "", {})
    codes, scale, point = rounded(node, node.tensor(0))
    left, zero = (of_expr(node.emit(relax.op.astype(x, "uint8"))) for x in (codes, point))
    product = _integers(node, [left, node.inputs[1], zero, _input(node, 3)])
    return _scaled(node, product, [scale, node.tensor(2)], 4)


@converts("QAttention", domain=MICROSOFT)
def quantized_attention(node: OnnxNode) -> list[Any]:
    """Project with a matrix of 8-bit integers, and attend in float32."""
    check_attributes(node, "num_heads scale mask_filter_value unidirectional",
                     {"do_rotary": 0, "past_present_share_buffer": 0})  # fmt: skip
    product = _integers(node, [*node.inputs[:2], _input(node, 6), _input(node, 7)])
    product = node.emit(_scaled(node, product, [_number(node, 3), node.tensor(4)], 2))
    return of_projections(node, product, MaskInputs(5, len(node.inputs), packed=True), 8)


@converts("QGemm", domain=MICROSOFT)
def quantized_gemm(node: OnnxNode) -> Any:
    """Multiply matrices of 8-bit integers, add int32, scale, and quantise if there is a scale."""
    check_attributes(node, "transA transB alpha", {})
    sides = [_input(node, 0), _input(node, 3)]
    for j, (k, name) in enumerate(((0, "transA"), (3, "transB"))):
        if node.attr(name, 0):
            sides[j] = _turned(node, k)
    bias = node.tensor(6) if node.has(6) else None
    product = _integers(node, [*sides, _input(node, 2), _input(node, 5)], bias)
    alpha = relax.const(float(node.attr("alpha", 1.0)), "float32")
    result = node.emit(_scaled(node, product, [_number(node, 1), node.tensor(4), alpha], 9))
    return _quantized(node, result, 7) if node.has(7) else result


def _turned(node: OnnxNode, k: int) -> TensorValue:
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        return TensorValue(value.dtype, np.ascontiguousarray(value.elements.T))
    return node.result(relax.op.permute_dims(node.tensor(k)))


def _floats(node: OnnxNode, k: int) -> Any:
    """Return input `k` minus its zero point, times its scale, which are the next inputs."""
    data = node.emit(relax.op.astype(node.tensor(k), "float32"))
    if node.has(k + 2):
        point = node.emit(relax.op.astype(_number(node, k + 2), "float32"))
        data = node.emit(relax.op.subtract(data, point))
    return node.emit(relax.op.multiply(data, _number(node, k + 1)))


def _quantized(node: OnnxNode, result: Any, k: int, dtype: str = "") -> Any:
    """Return numbers rounded by a scale, input `k`, and the zero point after it."""
    point = _number(node, k + 1) if node.has(k + 1) else None
    dtype = node.dtype(k + 1) if node.has(k + 1) else dtype
    return codes_of(node, result, _number(node, k), point, dtype)


def _layer(op: str, attributes: str, scale: int = 3) -> Callable[[Any], Any]:
    """Register a function of floats for an operator with a scale and zero point of its result."""

    def register(function: Callable[[OnnxNode, Any], Any]) -> Any:
        def convert(node: OnnxNode) -> Any:
            check_attributes(node, attributes, {})
            result = node.emit(function(node, _floats(node, 0)))
            return _quantized(node, result, scale, node.dtype(0))

        converts(op, domain=MICROSOFT)(convert)
        return function

    return register


@_layer("QLinearLeakyRelu", "alpha")
def leaky_relu(node: OnnxNode, data: Any) -> Any:
    """Multiply what is negative."""
    return relax.op.nn.leakyrelu(data, float(node.attr("alpha", 0.01)))


@_layer("QLinearSigmoid", "")
def sigmoid(node: OnnxNode, data: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return relax.op.sigmoid(data)


@_layer("QLinearSoftmax", "opset axis")
def softmax(node: OnnxNode, data: Any) -> Any:
    """Normalise along an axis, before operator set 13 over all axes from it on."""
    old = int(node.attr("opset", OPSET)) < OPSET
    rank = node.rank(0)
    axis = node.axis(1 if old else -1, rank)
    if not old or axis == rank - 1:
        return relax.op.nn.softmax(data, axis)
    dims = dims_of(data)
    flat = node.reshape(data, [*dims[:axis], -1])
    return node.reshape(node.emit(relax.op.nn.softmax(flat, -1)), dims)


@_layer("QLinearReduceMean", "axes keepdims")
def mean(node: OnnxNode, data: Any) -> Any:
    """Return the mean along axes."""
    axes = list(node.attr("axes") or range(node.rank(0)))
    return relax.op.mean(data, axes, keepdims=bool(node.attr("keepdims", 1)))


@_layer("QLinearGlobalAveragePool", "channels_last")
def global_average_pool(node: OnnxNode, data: Any) -> Any:
    """Return the mean of each channel."""
    last, rank = bool(node.attr("channels_last", 0)), node.rank(0)
    axes = list(range(1, rank - 1)) if last else list(range(2, rank))
    return relax.op.mean(data, axes, keepdims=True)


@_layer("QLinearAveragePool",
        "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides")  # fmt: skip
def quantized_average_pool(node: OnnxNode, data: Any) -> Any:
    """Return the mean of each window; with count_include_pad, over all of its places."""
    last, rank = bool(node.attr("channels_last", 0)), node.rank(0)
    if last:
        data = node.emit(relax.op.permute_dims(data, [0, rank - 1, *range(1, rank - 1)]))
    inner = replace(node, op="AveragePool", domain="", opset=OPSET, inputs=[of_expr(data)])
    pool = average_of_places if node.attr("count_include_pad", 0) else average_pool
    result = node.emit(pool(inner))
    return relax.op.permute_dims(result, [0, *range(2, rank), 1]) if last else result


@converts("QLinearConcat", domain=MICROSOFT)
def concat(node: OnnxNode) -> Any:
    """Join tensors with scales and zero points of their own."""
    check_attributes(node, "axis", {})
    if len(node.inputs) % 3 != 2:
        node.refuse(f"it has {len(node.inputs)} inputs, expected 2 and 3 for each tensor")
    parts = [_floats(node, k) for k in range(2, len(node.inputs), 3)]
    axis = node.axis(0, node.rank(2))
    return _quantized(node, node.emit(relax.op.concat(parts, axis)), 0)


@converts("QLinearWhere", domain=MICROSOFT)
def where(node: OnnxNode) -> Any:
    """Return elements of the first tensor where a condition holds, else of the second."""
    check_attributes(node, "", {})
    chosen = relax.op.where(node.tensor(0), _floats(node, 1), _floats(node, 4))
    return _quantized(node, node.emit(chosen), 7)


@converts("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def linear(node: OnnxNode) -> Any:
    """Quantise or dequantise, also to and from 16 bits, as ONNX's operators of these names."""
    check_attributes(node, "axis", {})
    check_absent(node, {3: "a fourth one"})
    convert = quantize_linear if node.op == "QuantizeLinear" else dequantize_linear
    return convert(replace(node, domain="", opset=OPSET))
