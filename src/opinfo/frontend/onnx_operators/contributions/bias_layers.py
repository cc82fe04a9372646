"""Layers of diffusion models that begin with the sum of a bias."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of


@converts("BiasAdd", domain=MICROSOFT)
def bias_add(node: OnnxNode) -> Any:
    """Return x + bias + skip; the bias is of the last axis, and skip has the sizes of x."""
    check_attributes(node, "", {})
    total = _with_bias(node)
    return relax.op.add(total, node.cast_shape(node.tensor(2), dims_of(total)))


@converts("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: OnnxNode) -> Any:
    """Return the first half of x + bias times the Gelu of its second half, along the last axis."""
    check_attributes(node, "", {})
    total = _with_bias(node)
    size = dims_of(total)[-1]
    if not isinstance(size, int):
        node.refuse("the last axis has a symbolic size, expected a number", size)
    if size % 2:
        node.refuse(f"the last axis has {size} elements, expected an even number")
    axis, half = len(dims_of(total)) - 1, size // 2
    first, second = (node.emit(relax.op.strided_slice(total, [axis], [k], [k + half], [1]))
                     for k in (0, half))  # fmt: skip
    return relax.op.multiply(first, node.emit(relax.op.nn.gelu(second)))


def _with_bias(node: OnnxNode) -> Any:
    """Return the sum of the first two operands, the second of which has as many columns."""
    dims = node.shape(0)
    if not dims:
        node.refuse("its input is a scalar, expected at least 1 dimension")
    columns = dims[-1]
    if node.rank(1) == 1 and not isinstance(columns, int):
        columns = node.shape(1)[0]
    node.check_shape(1, [columns])
    data = node.cast_shape(node.tensor(0), [*dims[:-1], columns])
    bias = node.cast_shape(node.tensor(1), [columns])
    return node.emit(relax.op.add(data, bias))
