"""RelativePositionBias: a bias of the scores by how far a key is from a query, in T5.

Distances below `exact` have a bucket each; those beyond share buckets, whose number grows with the
logarithm, up to `max_distance`. Both signs have buckets of their own if the attention looks ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.values import Dim
from .score_masks import positions

#: Limit on `max_distance`, up to which the buckets of distances are a constant.
MOST = 1 << 20


@converts("RelativePositionBias", domain=MICROSOFT)
def relative_position_bias(node: OnnxNode) -> Any:
    """Return [1, heads, queries, keys], taken from a table of [heads, buckets]."""
    check_attributes(node, "max_distance is_bidirectional", {})
    if node.rank(0) != 2:
        node.refuse(f"its table has {node.rank(0)} dimensions, expected 2")
    buckets, heads = node.shape(0)
    if not isinstance(buckets, int) or not isinstance(heads, int):
        node.refuse("its table has a symbolic size, expected numbers", buckets, heads)
    # The table's sizes are [buckets, heads], and its elements those of its transposition.
    table = node.reshape(node.tensor(0), [heads, buckets])
    queries, keys = _length(node, 1), _length(node, 2)
    node.require(node.arithmetic.equation(queries, keys))
    chosen = _buckets(node, queries, buckets)
    return node.emit(relax.op.expand_dims(node.emit(relax.op.take(table, chosen, 1)), 0))


def _length(node: OnnxNode, k: int) -> Dim:
    lengths = node.integers(k, "a length")
    if len(lengths) != 1:
        node.refuse(f"input {k} has {len(lengths)} elements, expected one")
    return lengths[0]


def _buckets(node: OnnxNode, length: Dim, buckets: int) -> Any:
    """Return the bucket of each query and key, [length, length]."""
    furthest, both = int(node.attr("max_distance", 0)), bool(node.attr("is_bidirectional", 0))
    count = buckets // 2 if both else buckets
    if count < 2 or not count // 2 < furthest <= MOST:
        node.refuse(
            f"its attribute 'max_distance' is {furthest} with {buckets} buckets, expected "
            f"{count // 2 + 1} to {MOST}, and at least {4 if both else 2} buckets"
        )
    columns, rows = (positions(node, length, shape) for shape in ([1, -1], [-1, 1]))
    distance = node.emit(relax.op.subtract(columns, rows))
    size = node.emit(relax.op.minimum(node.emit(relax.op.abs(distance)),
                                      relax.const(furthest, "int64")))  # fmt: skip
    numbers = relax.const(bucket_of_distances(count, furthest), "int64")
    chosen = node.emit(relax.op.take(numbers, size, 0))
    if not both:
        return chosen
    later = node.emit(relax.op.greater(distance, relax.const(0, "int64")))
    shift = node.emit(relax.op.where(later, relax.const(count, "int64"), relax.const(0, "int64")))
    return node.emit(relax.op.add(chosen, shift))


def bucket_of_distances(count: int, furthest: int) -> np.ndarray[Any, Any]:
    """Return the buckets, below `count`, of the distances up to `furthest`, in float32."""
    exact, distances = count // 2, np.arange(furthest + 1)
    ratio = np.maximum(distances, 1).astype("float32") / np.float32(exact)
    share = np.log(ratio) / np.log(np.float32(furthest) / np.float32(exact))
    beyond = exact + (share * np.float32(count - exact)).astype("int64")
    return np.where(distances < exact, distances, np.minimum(beyond, count - 1))
