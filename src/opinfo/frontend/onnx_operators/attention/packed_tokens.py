"""Attention over tokens of several sequences, packed without padding.

    RemovePadding: [batch, length, size] and the length of each sequence -> [tokens, size]
    PackedAttention, PackedMultiHeadAttention: [tokens, size] -> [tokens, size]
    RestorePadding: [tokens, size] -> [batch, length, size]

How many tokens there are is data, and so a symbolic size from `RemovePadding` on. Sequences are
padded at their ends. The first and the last are functions (`onnx_functions/packed_rows.py`).
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes, count_of_heads
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim
from .heads import Scores, attended, hidden_size, split
from .score_masks import LOWEST, ScoreExtents, bias, kept, positions, summed


@converts("PackedAttention", domain=MICROSOFT)
def packed_attention(node: OnnxNode) -> Any:
    """Project tokens to queries, keys and values with one matrix, and attend."""
    check_attributes(node, "num_heads scale qkv_hidden_sizes", {})
    product = node.emit(relax.op.matmul(node.tensor(0), node.tensor(1),
                                        out_dtype=accumulated(node.tensor(0))))  # fmt: skip
    product = node.emit(relax.op.add(product, _as(node, node.tensor(2), str(product.ty.dtype))))
    product = _as(node, product, node.dtype(0))
    width = hidden_size(node, product, "its weights")
    sizes = [int(size) for size in node.attr("qkv_hidden_sizes") or [width // 3] * 3]
    if len(sizes) != 3 or sum(sizes) != width or sizes[0] != sizes[1] or min(sizes) < 1:
        node.refuse(f"qkv_hidden_sizes are {sizes}, expected three of the sum {width}, the first "
                    "two equal")  # fmt: skip
    return _attended(node, _columns(node, product, sizes), (3, 4, 5))


@converts("PackedMultiHeadAttention", domain=MICROSOFT)
def packed_multi_head_attention(node: OnnxNode) -> Any:
    """Attend to projected tokens."""
    # Keys of other sequences and padding are left out, so that no value stands for a mask.
    check_attributes(node, "num_heads scale mask_filter_value", {})
    heads = count_of_heads(node, "num_heads")
    if node.has(1) != node.has(2):
        node.refuse("key or value is missing, expected both, or both packed with the query")
    if node.has(1):
        tokens = node.shape(0)[0]
        parts = [node.cast_shape(node.tensor(k), [tokens, node.shape(k)[-1]]) for k in range(3)]
    else:
        parts = _unpacked(node, heads)
    if node.has(3):
        sizes = [hidden_size(node, part, "its input") for part in parts]
        whole = node.cast_shape(node.tensor(3), [sum(sizes)])
        own = _columns(node, node.emit(relax.op.expand_dims(whole, 0)), sizes)
        parts = [node.emit(relax.op.add(*pair)) for pair in zip(parts, own, strict=True)]
    return _attended(node, parts, (4, 5, 6))


def _unpacked(node: OnnxNode, heads: int) -> list[Any]:
    """Return queries, keys and values that are packed as [tokens, heads, 3, size]."""
    dims = node.shape(0)
    if len(dims) != 4 or dims[1] != heads or dims[2] != 3 or not isinstance(dims[3], int):
        node.refuse(f"packed heads of the shape [{', '.join(map(str, dims))}], expected [tokens, "
                    f"{heads}, 3, a number]")  # fmt: skip
    pieces = [node.emit(relax.op.take(node.tensor(0), relax.const(k), 2)) for k in range(3)]
    return [node.reshape(piece, [dims[0], heads * dims[3]]) for piece in pieces]


def _columns(node: OnnxNode, data: Any, sizes: list[int]) -> list[Any]:
    """Return the columns of a matrix in parts of these sizes."""
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    return [node.emit(relax.op.strided_slice(data, [1], [end - size], [end], [1]))
            for size, end in zip(sizes, ends, strict=True)]  # fmt: skip


def _attended(node: OnnxNode, parts: list[Any], inputs: tuple[int, int, int]) -> Any:
    """Return [tokens, size], where tokens attend to those of their own sequence.

    Args:
        node: The node.
        parts: Queries, keys and values, [tokens, size].
        inputs: The inputs with the place of each token, the ends of the sequences, and a bias.
    """
    heads, (offsets, ends, more) = count_of_heads(node, "num_heads"), inputs
    if node.rank(offsets) != 2:
        node.refuse(f"token_offset has {node.rank(offsets)} dimensions, expected 2")
    batch, length = node.shape(offsets)
    tokens = dims_of(parts[0])[0]
    marks = node.cast_shape(node.tensor(ends), [node.simplify(node.arithmetic.add(batch, 1))])
    marks = _as(node, marks, "int64")
    first = node.emit(relax.op.strided_slice(marks, [0], [0], [batch], [1]))
    last = node.emit(relax.op.strided_slice(marks, [0], [1], [batch + 1], [1]))
    first, last = (node.reshape(mark, [batch, 1]) for mark in (first, last))
    rows = node.emit(relax.op.add(first, positions(node, length, [1, -1])))
    final = node.shape_tensor([node.arithmetic.add(tokens, -1)])
    inside = node.emit(relax.op.minimum(rows, final))  # padding reads any row
    query, key, value = (
        split(node, node.emit(relax.op.take(part, inside, 0)), heads, "its input") for part in parts
    )
    keep = node.reshape(node.emit(relax.op.less(rows, last)), [batch, 1, 1, length])
    extents = ScoreExtents(batch, heads, length, 0, length)
    mask = summed(node, kept(node, keep, LOWEST), bias(node, more, extents))
    how = Scores(float(node.attr("scale", 0.0)), mask=mask)
    result, _ = attended(node, query, key, value, how)
    return _gathered(node, result, offsets, (batch, length, tokens))


def _gathered(node: OnnxNode, padded: Any, offsets: int, sizes: tuple[Dim, Dim, Dim]) -> Any:
    """Return the tokens of a padded result, whose places come first among the offsets."""
    batch, length, tokens = sizes
    count = node.arithmetic.multiply(batch, length)
    flat = node.reshape(padded, [count, dims_of(padded)[2]])
    places = node.reshape(node.tensor(offsets), [count])
    places = node.emit(relax.op.strided_slice(places, [0], [0], [tokens], [1]))
    return relax.op.take(flat, node.cast_shape(places, [tokens]), 0)


def _as(node: OnnxNode, data: Any, dtype: str) -> Any:
    same = str(data.ty.dtype) == dtype
    return data if same else node.emit(relax.op.astype(data, dtype))
