"""Quantisation to float8, whose numbers are rounded by a cast; TVM converts the one to integers.

    QuantizeLinear(x, s, z)     cast(clip(x / s, -448, 448)), where z is 0
    DequantizeLinear(q, s, z)   cast(q) * s

TVM's `relax.dequantize` truncates float8 to whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph import tvm_converters
from ..onnx_graph.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode

#: The largest number of each dtype that is taken.
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


@converts("QuantizeLinear")
def quantize(node: OnnxNode) -> Any:
    """Divide by the scale, saturate and round to the dtype of the zero point."""
    if not node.has(2) or (dtype := node.dtype(2)) not in LARGEST:
        return tvm_converters.convert(node)
    if not int(node.attr("saturate", 1)):
        node.refuse(f"it rounds to {dtype} without saturation")
    most, data = LARGEST[dtype], _wide(node, node.tensor(0))
    steps = node.emit(relax.op.divide(data, _scale(node)))
    return relax.op.astype(node.emit(relax.op.clip(steps, -most, most)), dtype)


@converts("DequantizeLinear")
def dequantize(node: OnnxNode) -> Any:
    """Multiply by the scale; the result has its dtype."""
    if node.dtype(0) not in LARGEST:
        return tvm_converters.convert(node)
    result = node.emit(relax.op.multiply(_wide(node, node.tensor(0)), _scale(node)))
    dtype = node.dtype(1)
    return result if dtype == "float32" else relax.op.astype(result, dtype)


def _wide(node: OnnxNode, data: Any) -> Any:
    return data if str(data.ty.dtype) == "float32" else node.emit(relax.op.astype(data, "float32"))


def _scale(node: OnnxNode) -> Any:
    """The scale in float32, with the shape that it broadcasts with; the zero point must be 0."""
    if node.has(2):
        zero = node.array(2, "zero point").astype("float32")
        if np.any(zero != 0):
            node.refuse(f"its zero point is {zero.ravel()[0]}, expected 0 for float8")
    if int(node.attr("block_size", 0)):
        node.refuse("it is blocked, expected one scale or one for each element of an axis")
    shape: list[int] = []
    if node.shape(1) not in ([], [1]):
        axis = node.axis(1, node.rank(0))
        shape = [-1 if k == axis else 1 for k in range(node.rank(0))]
    if node.value(1).is_constant:
        return relax.const(node.array(1, "scale").astype("float32").reshape(shape), "float32")
    return node.emit(relax.op.reshape(_wide(node, node.tensor(1)), shape))
