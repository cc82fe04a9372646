"""QuantizeLinear and DequantizeLinear, also of blocks, and of a symbolic number of channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.attributes import dtype_name
from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.conversion.tvm_converters import convert
from ..onnx_graph.narrow_types import as_bytes, check_result
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.values import TensorValue, constant, of_expr
from .quantized import codes_of


@converts("QuantizeLinear")
def quantize_linear(node: OnnxNode) -> Any:
    """Divide by a scale, round halves to even, add a zero point."""
    to = dtype_name(node.attr("output_dtype")) if node.attr("output_dtype") else ""
    to = to or (node.dtype(2) if node.has(2) else "uint8")
    check_result(node, to)
    if np.dtype(to).kind not in "iu":
        node.refuse(f"its result is {to}, expected integers")
    scale = node.value(1)
    if scale.is_constant and scale.elements is not None and not scale.elements.all():
        node.refuse("its scale has the element 0, by which a number cannot be divided; write 1")
    if node.dtype(0) == "int32":
        inputs = [of_expr(node.emit(relax.op.astype(node.tensor(0), node.dtype(1))))]
        node = replace(node, inputs=[*inputs, *node.inputs[1:]])
    if not node.attr("block_size", 0):
        return convert(_with_equal_sizes(node))
    return codes_of(node, node.tensor(0), _of_blocks(node, 1), _of_blocks(node, 2), to)


@converts("DequantizeLinear")
def dequantize_linear(node: OnnxNode) -> Any:
    """Subtract a zero point and multiply by a scale."""
    inputs = [as_bytes(node, k) if node.has(k) else None for k in range(len(node.inputs))]
    node = replace(node, inputs=inputs)
    if node.dtype(0).startswith("float8"):
        return _dequantize_floats(node)
    if not node.attr("block_size", 0):
        return convert(_with_equal_sizes(node))
    dtype = node.dtype(1)
    data, point = node.emit(relax.op.astype(node.tensor(0), "int32")), _of_blocks(node, 2)
    if point is not None:
        point = node.emit(relax.op.astype(point, "int32"))
        data = node.emit(relax.op.subtract(data, point))
    data = node.emit(relax.op.astype(data, dtype))
    return _with_output_type(node, node.emit(relax.op.multiply(data, _of_blocks(node, 1))))


def _dequantize_floats(node: OnnxNode) -> Any:
    """Multiply numbers of float8, which have a fraction and the zero point 0, by a scale."""
    if node.has(2):
        point = node.value(2)
        if not point.is_constant or point.elements is None or point.elements.astype("f4").any():
            node.refuse(f"its zero point of {point.dtype} is not known to be 0; leave it out")
        node = replace(node, inputs=node.inputs[:2])
    if node.attr("block_size", 0):
        scale = _of_blocks(node, 1)
    else:
        node = _with_equal_sizes(node)
        scale = node.tensor(1)
        if node.rank(1):
            axis, rank = _axis(node), node.rank(0)
            others = [k for k in range(rank) if k != axis % rank]
            scale = node.emit(relax.op.expand_dims(scale, others)) if others else scale
    return _with_output_type(node, node.emit(relax.op.multiply(_widened(node), scale)))


def _widened(node: OnnxNode) -> Any:
    """Return the data in the scale's type; of constants exactly, which TVM's code is not."""
    data = node.value(0)
    if data.is_constant and data.elements is not None:
        return node.graph.tensor(constant(data.elements.astype(node.dtype(1))))
    return node.emit(relax.op.astype(node.tensor(0), node.dtype(1)))


def _with_output_type(node: OnnxNode, result: Any) -> Any:
    """Return a result of the scale's type in the type that the node asks for."""
    to = dtype_name(node.attr("output_dtype")) if node.attr("output_dtype") else node.dtype(1)
    return relax.op.astype(result, to) if to != node.dtype(1) else result


def _axis(node: OnnxNode) -> int:
    rank = node.rank(0)
    return 0 if rank <= 1 and node.attr("axis", 1) == 1 else node.axis(1, rank)


def _with_equal_sizes(node: OnnxNode) -> OnnxNode:
    """Return the node with as many scales as there are channels; the number of one holds for all.

    One element in a vector is a scalar.
    """
    operands = [k for k in (1, 2) if node.has(k)]
    inputs = list(node.inputs)
    if all(node.shape(k) in ([], [1]) for k in operands):
        for k in operands:
            if node.shape(k) == [1]:
                inputs[k] = _reshaped(node, k)
        return replace(node, inputs=inputs)
    axis, dims = _axis(node), node.shape(0)
    for k in operands:
        if node.rank(k) != 1:
            node.refuse(f"input {k} has {node.rank(k)} dimensions, expected 1 or none")
        node.check_shape(k, [dims[axis]])
        dims[axis] = dims[axis] if isinstance(dims[axis], int) else node.shape(k)[0]
    inputs[0] = of_expr(node.cast_shape(node.tensor(0), dims))
    for k in operands:
        inputs[k] = of_expr(node.cast_shape(node.tensor(k), [dims[axis]]))
    return replace(node, inputs=inputs)


def _reshaped(node: OnnxNode, k: int) -> TensorValue:
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        return constant(value.elements.reshape(()))
    return node.result(relax.op.reshape(node.tensor(k), ()))


def _of_blocks(node: OnnxNode, k: int) -> Any:
    """Return a scale or a zero point for each element of the data; None if it is absent."""
    if not node.has(k):
        return None
    axis, dims, own = _axis(node), node.shape(0), node.shape(k)
    block, count = int(node.attr("block_size")), own[axis] if len(own) == len(dims) else None
    if block < 1 or count is None:
        node.refuse(f"blocks of {block} with input {k} in {len(own)} dimensions, expected "
                    f"{len(dims)}")  # fmt: skip
    whole = node.emit(relax.op.repeat(node.tensor(k), block, axis))
    if isinstance(dims[axis], int) and isinstance(count, int):
        if -(-dims[axis] // block) != count:
            node.refuse(f"{count} blocks of {block} for {dims[axis]} elements")
        whole = node.emit(relax.op.strided_slice(whole, [axis], [0], [dims[axis]], [1]))
    return node.cast_shape(whole, dims)
