"""Rotary embeddings: pairs of elements are rotated by angles that grow with the position."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from .heads import hidden_size, merged, split
from .score_masks import positions


@converts("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: OnnxNode) -> Any:
    """Rotate [batch, length, hidden] or [batch, heads, length, size]."""
    check_attributes(node, "num_heads rotary_embedding_dim interleaved",
                     {"is_packed_batching": 0, "scale": 1.0})  # fmt: skip
    data = node.tensor(0)
    flat = node.rank(0) == 3
    if not flat and node.rank(0) != 4:
        node.refuse(f"its input has {node.rank(0)} dimensions, expected 3 or 4")
    own = int(node.attr("rotary_embedding_dim", 0))
    if own and not node.attr("num_heads", 0):
        node.refuse("rotary_embedding_dim is set without num_heads, expected both")
    if flat:
        half = hidden_size(node, node.tensor(2), "the cosines")
        hidden = hidden_size(node, data, "its input")
        heads = int(node.attr("num_heads", 0)) or max(hidden // (2 * half), 1)
        data = split(node, data, heads, "its input")
    batch, _, length, _ = dims_of(data)
    if node.rank(1) == 1:
        offset = node.reshape(node.cast_shape(node.tensor(1), [1]), [1, 1])
        place = node.emit(relax.op.add(offset, positions(node, length, [1, -1])))
    else:
        place = node.cast_shape(node.tensor(1), [batch, length])
    angles = cosines_and_sines(node, (2, 3), place)
    result = rotated(node, data, angles, bool(node.attr("interleaved", 0)))
    return merged(node, result) if flat else result


def cosines_and_sines(node: OnnxNode, inputs: tuple[int, int], place: Any) -> tuple[Any, Any]:
    """Return rows of two tables, as float32 [batch, 1, length, pairs], at positions."""
    tables = [node.tensor(k) for k in inputs]
    node.check_shape(inputs[1], node.shape(inputs[0]))
    rows = []
    for k, table in zip(inputs, tables, strict=True):
        hidden_size(node, table, "a table of angles")
        picked = node.emit(relax.op.take(table, place, 0))
        if node.dtype(k) != "float32":
            picked = node.emit(relax.op.astype(picked, "float32"))
        rows.append(node.emit(relax.op.expand_dims(picked, 1)))
    return rows[0], rows[1]


def rotated(node: OnnxNode, data: Any, angles: tuple[Any, Any], interleaved: bool) -> Any:
    """Return [batch, heads, length, size] with the first elements of each head rotated, in float32.

    Args:
        node: The node.
        data: The heads.
        angles: Cosines and sines, [batch, 1, length, pairs].
        interleaved: Whether elements `2i` and `2i + 1` are a pair, else `i` and `i + pairs`.
    """
    if str(data.ty.dtype) != "float32":
        data = node.emit(relax.op.astype(data, "float32"))
    size, pairs = hidden_size(node, data, "a head"), hidden_size(node, angles[0], "an angle")
    if 2 * pairs > size:
        node.refuse(f"{pairs} angles for heads of {size} elements, expected at most {size // 2}")
    rest = _columns(node, data, 2 * pairs, size) if 2 * pairs < size else None
    data = _columns(node, data, 0, 2 * pairs) if rest is not None else data
    outer = dims_of(data)[:3]
    if interleaved:
        whole = node.reshape(data, [*outer, pairs, 2])
        first, second = (node.emit(relax.op.take(whole, relax.const(k), 4)) for k in (0, 1))
    else:
        first, second = (_columns(node, data, k, k + pairs) for k in (0, pairs))
    cosine, sine = angles
    left = _combined(node, relax.op.subtract, (first, cosine), (second, sine))
    right = _combined(node, relax.op.add, (second, cosine), (first, sine))
    if interleaved:
        stacked = node.emit(relax.op.stack([left, right], 4))
        result = node.reshape(stacked, [*outer, 2 * pairs])
    else:
        result = node.emit(relax.op.concat([left, right], 3))
    return result if rest is None else node.emit(relax.op.concat([result, rest], 3))


def _columns(node: OnnxNode, data: Any, first: int, last: int) -> Any:
    return node.emit(relax.op.strided_slice(data, [3], [first], [last], [1]))


def _combined(node: OnnxNode, combine: Any, left: tuple[Any, Any], right: tuple[Any, Any]) -> Any:
    products = [node.emit(relax.op.multiply(*pair)) for pair in (left, right)]
    return node.emit(combine(*products))
