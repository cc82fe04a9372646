"""Rotary embeddings: pairs of elements are rotated by angles that grow with the position."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim
from .heads import hidden_size, merged, split
from .score_masks import positions


@converts("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: OnnxNode) -> Any:
    """Rotate [batch, length, hidden] or [batch, heads, length, size]."""
    check_attributes(node, "num_heads rotary_embedding_dim interleaved",
                     {"is_packed_batching": 0, "scale": 1.0})  # fmt: skip
    data, flat = _heads(node)
    batch, _, length, _ = dims_of(data)
    if node.rank(1) == 1:
        offset = node.reshape(node.cast_shape(node.tensor(1), [1]), [1, 1])
        place = node.emit(relax.op.add(offset, positions(node, length, [1, -1])))
    else:
        place = node.cast_shape(node.tensor(1), [batch, length])
    angles = cosines_and_sines(node, (2, 3), place)
    result = rotated(node, data, angles, bool(node.attr("interleaved", 0)))
    return merged(node, result) if flat else result


@converts("MRotaryEmbedding", domain=MICROSOFT)
def multimodal_rotary_embedding(node: OnnxNode) -> Any:
    """Rotate by places in time, in height and in width, of which each pair follows one."""
    check_attributes(node, "num_heads rotary_embedding_dim interleaved mrope_section mrope_layout",
                     {"is_packed_batching": 0, "scale": 1.0})  # fmt: skip
    data, flat = _heads(node)
    batch, _, length, _ = dims_of(data)
    if node.rank(1) != 3:
        node.refuse(f"position_ids has {node.rank(1)} dimensions, expected 3")
    places = node.cast_shape(node.tensor(1), [3, batch, length])
    streams = _streams(node, hidden_size(node, node.tensor(2), "the cosines"))
    places = node.reshape(places, [node.arithmetic.multiply(batch, 3), length])
    tables = cosines_and_sines(node, (2, 3), places)
    angles = [_of_streams(node, table, streams, batch) for table in tables]
    result = rotated(node, data, (angles[0], angles[1]), bool(node.attr("interleaved", 0)))
    return merged(node, result) if flat else result


def _heads(node: OnnxNode) -> tuple[Any, bool]:
    """Return the input as [batch, heads, length, size], and whether it is [batch, length, hidden].

    Without `num_heads`, a head has as many elements as two tables of angles.
    """
    data, flat = node.tensor(0), node.rank(0) == 3
    if not flat and node.rank(0) != 4:
        node.refuse(f"its input has {node.rank(0)} dimensions, expected 3 or 4")
    own = int(node.attr("rotary_embedding_dim", 0))
    if own and not node.attr("num_heads", 0):
        node.refuse("rotary_embedding_dim is set without num_heads, expected both")
    if not flat:
        return data, False
    half = hidden_size(node, node.tensor(2), "the cosines")
    hidden = hidden_size(node, data, "its input")
    heads = int(node.attr("num_heads", 0)) or max(hidden // (2 * half), 1)
    return split(node, data, heads, "its input"), True


def _streams(node: OnnxNode, pairs: int) -> np.ndarray[Any, Any]:
    """Return which places each pair follows: those in time (0), in height (1), in width (2)."""
    sections, layout = list(node.attr("mrope_section") or []), int(node.attr("mrope_layout", 0))
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != pairs:
        node.refuse(f"mrope_section is {sections}, expected three numbers from 0 of the sum "
                    f"{pairs}")  # fmt: skip
    if layout not in (0, 1):
        node.refuse(f"mrope_layout is {layout}, expected 0 for sections or 1 for turns")
    if layout == 0:
        return np.repeat(np.arange(3), sections)
    streams = np.zeros(pairs, "int64")
    for k in (1, 2):
        streams[k : 3 * sections[k] : 3] = k
    return streams


def _of_streams(node: OnnxNode, table: Any, streams: np.ndarray[Any, Any], batch: Dim) -> Any:
    """Return [batch, 1, length, pairs] of [3 * batch, 1, length, pairs], pairs by their streams."""
    _, _, length, pairs = dims_of(table)
    whole = node.reshape(table, [3, batch, 1, length, pairs])
    result, *others = (node.emit(relax.op.take(whole, relax.const(k), 0)) for k in range(3))
    for k, other in enumerate(others, 1):
        result = node.emit(relax.op.where(relax.const(streams == k), other, result))
    return result


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
