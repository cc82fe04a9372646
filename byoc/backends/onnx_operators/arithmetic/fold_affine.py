"""Sums with a term by channel as part of the operator before them.

Before: Add(ConvTranspose(x, w), b) with b of shape [1, C, 1, 1]
After:  ConvTranspose(x, w, b)

Before: Add(Mul(x, s), b)
After:  BatchNormalization(x, s, b, mean 0, variance 1), which runtimes keep in their own layouts
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....backend.region import Array, Call
from ....patterns.extents.symbolic_shapes import spread
from ..graph.graph_writer import GraphWriter


def affine_folded(writer: GraphWriter, call: Call, both: Sequence[str]) -> str | None:
    """The name of the operator with a term by channel; None if the sum is not one."""
    if call.result.dtype != "float32" or len(call.result.shape) < 3:
        return None
    for name, other in (both, both[::-1]):
        term = _by_channel(writer, call, name, other)
        if term is not None and writer.readers[name] == 1:
            return _with_bias(writer, name, term) or _normalised(writer, call, name, term)
    return None


def _with_bias(writer: GraphWriter, name: str, term: Array) -> str | None:
    node = writer.before(name, "Conv", "ConvTranspose")
    if node is None or len(node.inputs) != 2:
        return None
    return writer.node(node.op, [*node.inputs, writer.constant(term)], **node.attrs)


def _normalised(writer: GraphWriter, call: Call, name: str, term: Array) -> str | None:
    node = writer.before(name, "Mul")
    for data, other in (node.inputs, node.inputs[::-1]) if node is not None else ():
        factor = _by_channel(writer, call, data, other)
        if factor is not None and writer.number(other) is None:
            zero, one = (writer.constant(np.full(len(term), v, "float32")) for v in (0.0, 1.0))
            inputs = [data, writer.constant(factor), writer.constant(term), zero, one]
            return writer.node("BatchNormalization", inputs, epsilon=0.0)
    return None


def _by_channel(writer: GraphWriter, call: Call, name: str, other: str) -> Array | None:
    """A constant as a vector over the channels of a tensor of the shape of the result."""
    array, shape = writer.arrays.get(other), call.result.shape
    tensor, channels = writer.tensors.get(name), shape[1]
    if array is None or tensor is None or not isinstance(channels, int):
        return None
    if len(tensor.shape) != len(shape) or spread(tensor.shape, shape) is None:
        return None
    if any(a == 1 and b != 1 for a, b in zip(tensor.shape, shape, strict=True)):
        return None
    if array.size == 1 and array.ndim <= len(shape):
        return array.reshape(()).repeat(channels)
    return array.reshape(-1) if spread(array.shape, shape) == (1,) else None
