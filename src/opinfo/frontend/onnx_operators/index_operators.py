"""Gather, TopK and other operators that take elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import is_expr


@converts("Gather")
def gather(node: OnnxNode) -> Any:
    """Take slices along an axis; negative indices count from the end."""
    dims = node.shape(0)
    axis = node.axis(0, len(dims))
    return relax.op.take(node.tensor(0), positive(node, 1, dims[axis]), axis)


def positive(node: OnnxNode, k: int, dim: Any) -> Any:
    """Return the indices of input `k`, counted from the start of an axis of size `dim`."""
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        if (value.elements >= 0).all():
            return node.tensor(k)
        if isinstance(dim, int):
            array = np.where(value.elements < 0, value.elements + dim, value.elements)
            return relax.const(array.astype(value.dtype), value.dtype)
    indices = node.tensor(k)
    if value.dtype.startswith("u"):
        return indices
    extent = (
        relax.const(dim, value.dtype)
        if not is_expr(dim)
        else node.emit(relax.op.reshape(node.shape_tensor([dim], value.dtype), ()))
    )
    below = node.emit(relax.op.less(indices, relax.const(0, value.dtype)))
    return node.emit(relax.op.where(below, relax.op.add(indices, extent), indices))


@converts("GatherElements")
def gather_elements(node: OnnxNode) -> Any:
    """Take elements along an axis."""
    dims = node.shape(0)
    axis = node.axis(0, len(dims))
    return relax.op.gather_elements(node.tensor(0), positive(node, 1, dims[axis]), axis)


@converts("TopK")
def topk(node: OnnxNode) -> Any:
    """Return the largest or smallest elements along an axis, and their indices."""
    count = node.integers(1, "k")[0] if node.has(1) else int(node.attr("k"))
    if not isinstance(count, int):
        node.refuse("k is symbolic, expected a constant", count)
    axis = node.axis(-1, node.rank(0))
    largest = bool(node.attr("largest", 1))
    return relax.op.topk(node.tensor(0), count, axis, "both", largest, "int64")


@converts("ReverseSequence")
def reverse_sequence(node: OnnxNode) -> Any:
    """Reverse the first elements of each sequence of a batch."""
    batch, time = int(node.attr("batch_axis", 1)), int(node.attr("time_axis", 0))
    return relax.op.reverse_sequence(node.tensor(0), node.tensor(1), time, batch)


@converts("CumSum", "CumProd")
def cumulated(node: OnnxNode) -> Any:
    """Return cumulative sums or products along an axis, from its end if reversed."""
    axis = int(node.array(1, "axis").reshape(-1)[0]) % node.rank(0)
    data, reverse = node.tensor(0), bool(node.attr("reverse", 0))
    data = node.emit(relax.op.flip(data, axis)) if reverse else data
    exclusive = bool(node.attr("exclusive", 0))
    cumulate = relax.op.cumsum if node.op == "CumSum" else relax.op.cumprod
    result = node.emit(cumulate(data, axis, exclusive=exclusive))
    return relax.op.flip(result, axis) if reverse else result
