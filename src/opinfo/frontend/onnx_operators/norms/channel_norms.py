"""Normalisations of channels, whose number may be symbolic."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from tvm import relax

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import convert
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim, of_expr
from .normalization import variance_of

#: From this operator set on, GroupNormalization has a scale for each channel, not for each group.
PER_CHANNEL = 21


@converts("InstanceNormalization")
def instance_normalization(node: OnnxNode) -> Any:
    """Normalise each channel of each image; TVM would take a scale of any size for all channels."""
    channels, data = _channels(node)
    operands = [node.cast_shape(node.tensor(k), [channels]) for k in (1, 2)]
    return convert(replace(node, inputs=[of_expr(x) for x in (data, *operands)]))


@converts("GroupNormalization")
def group_normalization(node: OnnxNode) -> Any:
    """Normalise groups of channels."""
    groups = int(node.attr("num_groups", 0))
    if groups < 1:
        node.refuse(f"num_groups is {groups}, expected a number from 1")
    per_channel = node.opset >= PER_CHANNEL
    if per_channel:
        channels, data = _channels(node)
        operands = [node.cast_shape(node.tensor(k), [channels]) for k in (1, 2)]
    else:
        channels, data = node.shape(0)[1], node.tensor(0)
        operands = [node.cast_shape(node.tensor(k), [groups]) for k in (1, 2)]
    if not is_expr(channels) and channels % groups:
        node.refuse(f"{channels} channels in {groups} groups, expected groups of one size")
    node.require(node.arithmetic.equation(node.arithmetic.modulo(channels, groups), 0))
    if is_expr(channels) or node.dtype(0) != "float32":
        return _by_groups(node, data, groups, operands)
    return convert(replace(node, inputs=[of_expr(x) for x in (data, *operands)]))


def _channels(node: OnnxNode) -> tuple[Dim, Any]:
    """Return the number of channels, which the scale or the bias may fix, and the data."""
    batch, channels, *rest = node.shape(0)
    for k in (1, 2):
        node.check_shape(k, [channels])
        own = node.shape(k)[0]
        channels = channels if isinstance(channels, int) else own
    return channels, node.cast_shape(node.tensor(0), [batch, channels, *rest])


def _by_groups(node: OnnxNode, data: Any, groups: int, operands: list[Any]) -> Any:
    """Normalise groups of a symbolic number of channels, or of another dtype than float32."""
    dims, dtype, stash = dims_of(data), node.dtype(0), str(data.ty.dtype)
    if node.opset >= PER_CHANNEL and node.attr("stash_type", 1) == 1 and stash != "float32":
        data, stash = node.emit(relax.op.astype(data, "float32")), "float32"
    inner = functools.reduce(node.arithmetic.multiply, dims[1:], 1)
    terms = node.arithmetic.floor_divide(inner, groups)
    grouped = node.reshape(data, [dims[0], groups, terms])
    mean = node.emit(relax.op.mean(grouped, [2], keepdims=True))
    square = variance_of(node, grouped, mean, [2])
    epsilon = relax.const(float(node.attr("epsilon", 1e-5)), stash)
    deviation = node.emit(relax.op.sqrt(node.emit(relax.op.add(square, epsilon))))
    centred = node.emit(relax.op.subtract(grouped, mean))
    result = node.emit(relax.op.astype(node.emit(relax.op.divide(centred, deviation)), dtype))
    around = [1] * (len(dims) - 2 if node.opset >= PER_CHANNEL else 1)
    scale, bias = (node.reshape(x, [*dims_of(x), *around]) for x in operands)
    result = node.reshape(result, dims) if node.opset >= PER_CHANNEL else result
    result = node.emit(relax.op.add(node.emit(relax.op.multiply(result, scale)), bias))
    return result if node.opset >= PER_CHANNEL else node.reshape(result, dims)
