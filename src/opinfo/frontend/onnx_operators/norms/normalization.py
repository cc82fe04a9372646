"""Normalisations whose statistics are outputs, or computed from the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import convert
from ...onnx_graph.onnx_node import OnnxNode

#: Normalisation by statistics of the batch has an attribute from this operator set on.
TRAINING_MODE = 14


@converts("LayerNormalization")
def layer_normalization(node: OnnxNode) -> list[Any]:
    """Normalise over the last axes; the mean and the inverse deviation have their sizes as 1."""
    axis = node.axis(-1, node.rank(0))
    axes, dtype = list(range(axis, node.rank(0))), node.dtype(0)
    sizes = node.shape(0)[axis:]
    if node.rank(1) != len(axes) or (node.has(2) and node.rank(2) != len(axes)):
        node.refuse(f"a scale or bias of another rank than {len(axes)}")
    # A number holds for a symbol; cast to a symbol, constants would define it once more.
    for own in (node.shape(k) for k in (1, 2) if node.has(k)):
        sizes = [a if isinstance(a, int) else b for a, b in zip(sizes, own, strict=True)]
    scale = node.cast_shape(node.tensor(1), sizes)
    bias = node.cast_shape(node.tensor(2), sizes) if node.has(2) else relax.op.zeros(sizes, dtype)
    data = node.cast_shape(node.tensor(0), [*node.shape(0)[:axis], *sizes])
    epsilon = float(node.attr("epsilon", 1e-5))
    if dtype != "float64":
        result = node.emit(relax.op.nn.layer_norm(data, scale, bias, axes, epsilon))
        if not node.wants(1) and not node.wants(2):
            return [result, None, None]
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    variance = variance_of(node, data, mean, axes)
    inverse = relax.op.rsqrt(node.emit(relax.op.add(variance, relax.const(epsilon, dtype))))
    deviation = node.emit(inverse)
    if dtype == "float64":  # TVM's kernel takes other floats
        normal = relax.op.multiply(node.emit(relax.op.subtract(data, mean)), deviation)
        scaled = relax.op.multiply(node.emit(normal), scale)
        result = node.emit(relax.op.add(node.emit(scaled), bias))
    return [result, mean, deviation]


@converts("RMSNormalization")
def rms_normalization(node: OnnxNode) -> Any:
    """Divide by the root of the mean square over the last axes."""
    axis = node.axis(-1, node.rank(0))
    if axis:
        return convert(node)
    # TVM's kernel has no result for a norm of the whole tensor.
    data, axes, dtype = node.tensor(0), list(range(node.rank(0))), node.dtype(0)
    square = node.emit(relax.op.mean(node.emit(relax.op.multiply(data, data)), axes, keepdims=True))
    epsilon = relax.const(float(node.attr("epsilon", 1e-5)), dtype)
    root = node.emit(relax.op.rsqrt(node.emit(relax.op.add(square, epsilon))))
    return relax.op.multiply(node.emit(relax.op.multiply(data, root)), node.tensor(1))


@converts("BatchNormalization")
def batch_normalization(node: OnnxNode) -> Any:
    """Normalise by given statistics, or by those of the batch, which are averaged with them."""
    if node.opset < TRAINING_MODE or not node.attr("training_mode", 0):
        if any(map(node.wants, range(1, len(node.outputs)))):
            node.refuse("its statistics are read, expected one output without training_mode")
        return convert(node)
    data, dtype, rank = node.tensor(0), node.dtype(0), node.rank(0)
    axes = [axis for axis in range(rank) if axis != 1]
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    variance = variance_of(node, data, mean, axes)
    epsilon = relax.const(float(node.attr("epsilon", 1e-5)), dtype)
    centred = node.emit(relax.op.subtract(data, mean))
    deviation = node.emit(relax.op.sqrt(node.emit(relax.op.add(variance, epsilon))))
    scale, bias = (relax.op.reshape(node.tensor(k), [1, -1, *[1] * (rank - 2)]) for k in (1, 2))
    result = relax.op.multiply(node.emit(relax.op.divide(centred, deviation)), node.emit(scale))
    momentum = float(node.attr("momentum", 0.9))
    running = [
        relax.op.add(
            node.emit(relax.op.multiply(node.tensor(k), relax.const(momentum, dtype))),
            node.emit(relax.op.multiply(node.emit(relax.op.reshape(own, [-1])),
                                        relax.const(1 - momentum, dtype))))
        for k, own in ((3, mean), (4, variance))
    ]  # fmt: skip
    return [relax.op.add(node.emit(result), node.emit(bias)), *running]


@converts("MeanVarianceNormalization")
def mean_variance_normalization(node: OnnxNode) -> Any:
    """Subtract the mean along axes and divide by the deviation: NaN where that is 0.

    The function in ONNX adds 1e-9 to the deviation; the text and ONNX Runtime do not.
    """
    data, rank = node.tensor(0), node.rank(0)
    given = [int(axis) for axis in node.attr("axes", (0, 2, 3))]
    if any(not -rank <= axis < rank for axis in given):
        node.refuse(f"axes are {given}, expected -{rank} to {rank - 1}")
    axes = sorted({axis % rank for axis in given})
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    deviation = node.emit(relax.op.sqrt(variance_of(node, data, mean, axes)))
    return relax.op.divide(node.emit(relax.op.subtract(data, mean)), deviation)


def variance_of(node: OnnxNode, data: Any, mean: Any, axes: Sequence[int]) -> Any:
    """Return the mean square of the distances from the mean along axes, which are kept."""
    centred = node.emit(relax.op.subtract(data, mean))
    square = node.emit(relax.op.multiply(centred, centred))
    return node.emit(relax.op.mean(square, list(axes), keepdims=True))
