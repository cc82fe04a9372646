"""Which experts multiply a row, and how much each counts."""

from __future__ import annotations

import functools
from typing import Any

from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim


def routes(node: OnnxNode, rows: Dim, experts: int, *, by_scores: bool = False) -> tuple[Any, Any]:
    """Return the experts of each row, [rows * k], and their weights, float32 [rows, k].

    Of equal experts, ONNX Runtime 1.32 takes the last ones.

    Args:
        node: The node; its second input has a score for each row and expert.
        rows: The number of rows.
        experts: The number of experts.
        by_scores: Choose by scores, and normalise the weights of what is chosen. Otherwise experts
            are chosen by their shares among all, of which more are equal after rounding.
    """
    count = int(node.attr("k", 1))
    if not 1 <= count <= experts:
        node.refuse(f"k is {count}, expected 1 to {experts}, the number of experts")
    scores = node.cast_shape(widened(node, node.tensor(1)), [rows, experts])
    ranked = scores if by_scores else node.emit(relax.op.nn.softmax(scores, -1))
    backwards = node.emit(relax.op.flip(ranked, 1))
    best = node.emit(relax.op.topk(backwards, count, -1, "both", True, "int64"))
    weights, places = (node.emit(relax.TupleGetItem(best, k)) for k in (0, 1))
    chosen = node.emit(relax.op.subtract(relax.const(experts - 1, "int64"), places))
    if by_scores:
        weights = node.emit(relax.op.nn.softmax(weights, -1))
    elif node.attr("normalize_routing_weights", 0):
        total = node.emit(relax.op.sum(weights, -1, keepdims=True))
        weights = node.emit(relax.op.divide(weights, total))
    return node.reshape(chosen, [node.arithmetic.multiply(rows, count)]), weights


def repeated(node: OnnxNode, data: Any, count: int) -> Any:
    """Return [rows, size] as [rows * count, 1, size], each row as often as it has experts."""
    rows, size = dims_of(data)
    spread = node.emit(relax.op.expand_dims(data, 1))
    if count > 1:
        spread = node.emit(relax.op.broadcast_to(spread, [rows, count, size]))
    return node.reshape(spread, [node.arithmetic.multiply(rows, count), 1, size])


def combined(node: OnnxNode, data: Any, weights: Any) -> Any:
    """Return the weighted sum, [rows, size], of the results of each row's experts."""
    rows, count = dims_of(weights)
    size = dims_of(data)[-1]
    parts = node.reshape(widened(node, data), [rows, count, size])
    scaled = node.emit(relax.op.multiply(parts, node.emit(relax.op.expand_dims(weights, 2))))
    return node.emit(relax.op.sum(scaled, 1))


def flattened(node: OnnxNode, depth: int) -> Any:
    """Return the first input as [rows, depth]."""
    dims = node.shape(0)
    if len(dims) not in (2, 3):
        node.refuse(f"its input has {len(dims)} dimensions, expected 2 or 3")
    data = node.cast_shape(node.tensor(0), [*dims[:-1], depth])
    rows = node.simplify(functools.reduce(node.arithmetic.multiply, dims[:-1], 1))
    return data if len(dims) == 2 else node.reshape(data, [rows, depth])


def widened(node: OnnxNode, data: Any) -> Any:
    """Return data in float32."""
    same = str(data.ty.dtype) == "float32"
    return data if same else node.emit(relax.op.astype(data, "float32"))
