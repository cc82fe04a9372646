"""BiasSoftmax: the softmax of scores plus a bias, over all axes from one on."""

from __future__ import annotations

import functools
from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim


@converts("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(node: OnnxNode) -> Any:
    """Return softmax(x + bias); the bias is that of the first outer axes, or of the last ones."""
    check_attributes(node, "axis is_inner_broadcast", {})
    if "is_inner_broadcast" not in node.attrs:
        node.refuse("its attribute 'is_inner_broadcast' is missing, expected 0 or 1")
    dims = node.shape(0)
    axis = node.axis(1, len(dims))
    bias = node.cast_shape(node.tensor(1), _sizes_of_bias(node, dims, axis))
    total = node.emit(relax.op.add(node.tensor(0), bias))
    if axis == len(dims) - 1:
        return relax.op.nn.softmax(total, axis)
    count = functools.reduce(node.arithmetic.multiply, dims[axis:], 1)
    flat = node.reshape(total, [*dims[:axis], count])
    return node.reshape(node.emit(relax.op.nn.softmax(flat, axis)), dims_of(total))


def _sizes_of_bias(node: OnnxNode, dims: list[Dim], axis: int) -> list[Dim]:
    """Return the sizes of the bias: 1 on one side of a place among the outer axes."""
    own = node.shape(1)
    missing = len(dims) - len(own)
    if missing < 0 or axis < missing:
        node.refuse(f"its bias has {len(own)} dimensions, expected {len(dims) - axis} to "
                    f"{len(dims)}")  # fmt: skip
    outer = [1] * missing + own[: axis - missing]
    ones = [isinstance(d, int) and d == 1 for d in outer]
    if node.attr("is_inner_broadcast"):
        given = [not all(ones[k:]) for k in range(axis)]
    else:
        given = [not all(ones[: k + 1]) for k in range(axis)]
    wanted = [dim if keep else 1 for dim, keep in zip(dims, given, strict=False)]
    return [*wanted, *dims[axis:]][missing:]
