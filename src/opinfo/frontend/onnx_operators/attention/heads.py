"""Attention over heads, and how hidden axes are split into heads.

s[b, n, i, j] = scale * sum_d q[b, n, i, d] * k[b, n // group, j, d]
out[b, i, n]  = sum_j softmax_j(cap * tanh(s / cap) + mask[b, n, i, j]) * v[b, n // group, j]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim


@dataclass(frozen=True)
class Scores:
    """How products of queries and keys become weights.

    Attributes:
        scale: Factor of the products; 0 for one by the root of the size of a head.
        softcap: Bound of a score, 0 for none.
        mask: A float32 tensor that is added and broadcasts to [batch, heads, queries, keys].
        sink: A float32 score of one more key without a value, [1 or heads]; None for none.
    """

    scale: float = 0.0
    softcap: float = 0.0
    mask: Any = None
    sink: Any = None


def hidden_size(node: OnnxNode, data: Any, what: str) -> int:
    """Return the size of the last axis, which must be a number."""
    size = dims_of(data)[-1]
    if not isinstance(size, int):
        node.refuse(f"the last axis of {what} has a symbolic size, expected a number", size)
    return size


def size_of_head(node: OnnxNode, hidden: int, heads: int, what: str) -> int:
    """Return the size of a head."""
    if hidden % heads:
        node.refuse(f"{what} has {hidden} elements, expected a multiple of its {heads} heads")
    return hidden // heads


def split(node: OnnxNode, data: Any, heads: int, what: str) -> Any:
    """Return [batch, length, hidden] as [batch, heads, length, size]."""
    batch, length = dims_of(data)[:2]
    size = size_of_head(node, hidden_size(node, data, what), heads, what)
    if heads == 1:
        return node.emit(relax.op.expand_dims(data, 1))
    parts = node.reshape(data, [batch, length, heads, size])
    return node.emit(relax.op.permute_dims(parts, [0, 2, 1, 3]))


def merged(node: OnnxNode, data: Any) -> Any:
    """Return [batch, heads, length, size] as [batch, length, hidden]."""
    batch, heads, length, size = dims_of(data)
    data = node.emit(relax.op.permute_dims(data, [0, 2, 1, 3]))
    return node.reshape(data, [batch, length, heads * size])


def attended(node: OnnxNode, query: Any, key: Any, value: Any, how: Scores) -> tuple[Any, Any]:
    """Return the result as [batch, length, hidden], and the masked scores.

    Args:
        node: The node.
        query: [batch, heads, queries, size].
        key: [batch, heads or a divisor of them, keys, size].
        value: As `key`, of any size.
        how: Scale, mask and bounds of the scores.
    """
    dtype = str(query.ty.dtype)
    batch, heads, queries, size = dims_of(query)
    groups, keys = dims_of(key)[1:3]
    turned = node.emit(relax.op.permute_dims(key, [0, 1, 3, 2]))
    factor = how.scale or 1 / math.sqrt(size)
    rows = node.arithmetic.multiply(heads // groups, queries)
    folded = query if heads == groups else node.reshape(query, [batch, groups, rows, size])
    scores = node.emit(relax.op.matmul(folded, turned, out_dtype=accumulated(query)))
    scores = node.emit(relax.op.multiply(scores, relax.const(factor, str(scores.ty.dtype))))
    if heads != groups:
        scores = node.reshape(scores, [batch, heads, queries, keys])
    if how.softcap:
        cap = relax.const(how.softcap, str(scores.ty.dtype))
        bounded = node.emit(relax.op.tanh(node.emit(relax.op.divide(scores, cap))))
        scores = node.emit(relax.op.multiply(bounded, cap))
    if how.mask is not None:
        scores = node.emit(relax.op.add(scores, how.mask))
    weights = _weights(node, scores, how.sink)
    if str(weights.ty.dtype) != dtype:
        weights = node.emit(relax.op.astype(weights, dtype))
    if heads != groups:
        weights = node.reshape(weights, [batch, groups, rows, keys])
    result = node.emit(relax.op.matmul(weights, value, out_dtype=accumulated(value)))
    if heads != groups:
        result = node.reshape(result, [batch, heads, queries, dims_of(value)[3]])
    return merged(node, result), scores


def _weights(node: OnnxNode, scores: Any, sink: Any) -> Any:
    """Return the softmax of scores, whose sum includes that of a sink."""
    if sink is None:
        return node.emit(relax.op.nn.softmax(scores, -1))
    batch, heads, queries, keys = dims_of(scores)
    column = node.emit(relax.op.reshape(sink, [1, -1, 1, 1]))
    column = node.emit(relax.op.broadcast_to(column, [batch, heads, queries, 1]))
    whole = node.emit(relax.op.concat([scores, column], -1))
    whole = node.emit(relax.op.nn.softmax(whole, -1))
    return node.emit(relax.op.strided_slice(whole, [3], [0], [keys], [1], assume_inbound=True))


def appended(node: OnnxNode, past: Any, new: Any) -> Any:
    """Return keys or values after those of earlier calls."""
    return node.emit(relax.op.concat([past, new], 2))


def total(node: OnnxNode, *lengths: Dim) -> Dim:
    """Return a sum of lengths."""
    result: Dim = 0
    for length in lengths:
        result = node.arithmetic.add(result, length)
    return node.simplify(result)
