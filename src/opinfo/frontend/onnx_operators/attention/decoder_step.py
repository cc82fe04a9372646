"""A step of a decoder: one query, and a cache of keys and values that may have room for more.

With `past_present_share_buffer`, a cache has all its rows from the start. The new row goes to the
place that `past_sequence_length` has, and rows behind it are neither seen nor changed. Which rows
are of which beam is for a search outside of the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_absent, check_attributes, count_of_heads
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from .cache_rows import with_columns, written_into
from .heads import Scores, appended, attended, hidden_size, split
from .multi_head import FILTER, MaskInputs, masked, operands_of
from .score_masks import LOWEST, ScoreExtents, bias, kept, padding, positions, summed

ATTRIBUTES = "num_heads scale mask_filter_value past_present_share_buffer"


@converts("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def masked_multi_head_attention(node: OnnxNode) -> list[Any]:
    """Attend to a new key and those of a cache, or to the keys of an encoder."""
    check_attributes(node, ATTRIBUTES, {"output_qk": 0})
    check_absent(node, {9: "cache_indirection"})
    _check_beams(node, 8)
    if node.wants(3):
        node.refuse("its output 'qk' is read, which has no lowering")
    heads = count_of_heads(node, "num_heads")
    given = node.inputs[:3] if node.has(1) or node.has(2) else _thirds(node)
    parts = [*given, node.inputs[10] if node.has(10) else None]
    query, key, value = operands_of(replace(node, inputs=parts), heads)
    if node.has(5) != node.has(6):
        node.refuse("past_key or past_value is missing, expected both or none")
    is_cache = node.has(1) and node.rank(1) == 4
    if is_cache and node.has(5):
        node.refuse("past_key beside keys that are a cache already, expected one of them")
    old = None if is_cache or not node.has(5) else (node.tensor(5), node.tensor(6))
    result, key, value = _step(node, [query, key, value], old, (3, 4, 7))
    return [result, *((key, value) if old else (None, None)), None]


@converts("DecoderMaskedSelfAttention", domain=MICROSOFT)
def masked_self_attention(node: OnnxNode) -> list[Any]:
    """Project with one matrix, and attend to the new key and those of a cache."""
    check_attributes(node, ATTRIBUTES, {"do_rotary": 0})
    check_absent(node, {8: "cache_indirection"})
    _check_beams(node, 7)
    heads = count_of_heads(node, "num_heads")
    product = node.emit(relax.op.matmul(node.tensor(0), node.tensor(1),
                                        out_dtype=accumulated(node.tensor(0))))  # fmt: skip
    own, dtype = node.tensor(2), str(product.ty.dtype)
    own = own if node.dtype(2) == dtype else node.emit(relax.op.astype(own, dtype))
    product = node.emit(relax.op.add(product, own))
    if dtype != node.dtype(0):
        product = node.emit(relax.op.astype(product, node.dtype(0)))
    parts = [split(node, part, heads, "its weights") for part in _columns(node, product)]
    if node.rank(4) != 5:
        node.refuse(f"past has {node.rank(4)} dimensions, expected 5")
    past = node.cast_shape(node.tensor(4), [2, *node.shape(4)[1:]])
    old = [node.emit(relax.op.take(past, relax.const(k), 0)) for k in (0, 1)]
    result, key, value = _step(node, parts, (old[0], old[1]), (3, 5, 6))
    return [result, relax.op.stack([key, value], 0)]


def _check_beams(node: OnnxNode, k: int) -> None:
    """Refuse several beams, whose rows only `cache_indirection` tells apart."""
    if node.has(k) and (count := int(node.array(k, "beam_width").reshape(-1)[0])) != 1:
        node.refuse(f"beam_width is {count}, expected 1: reorder the cache outside of the model")


def _thirds(node: OnnxNode) -> list[Any]:
    return [node.result(part) for part in _columns(node, node.tensor(0))]


def _columns(node: OnnxNode, data: Any) -> list[Any]:
    """Return the last axis in three equal parts: of queries, keys and values."""
    size, rest = divmod(hidden_size(node, data, "its input"), 3)
    if rest:
        node.refuse(f"packed heads of {3 * size + rest} elements, expected three equal parts")
    return [node.emit(relax.op.strided_slice(data, [2], [k * size], [k * size + size], [1]))
            for k in range(3)]  # fmt: skip


def _step(
    node: OnnxNode, parts: list[Any], old: tuple[Any, Any] | None, inputs: tuple[int, int, int]
) -> tuple[Any, Any, Any]:
    """Return the result and the cache after the step.

    Args:
        node: The node.
        parts: Queries, keys and values of heads.
        old: The cache; None if the keys are all there are.
        inputs: The inputs with a mask, a bias and the number of earlier keys.
    """
    query, key, value = parts
    node.require(node.arithmetic.equation(dims_of(query)[2], 1))
    mask, more, _ = inputs
    which = MaskInputs(mask, more, packed=False)
    if old is None:
        return masked(node, (query, key, value), 0, which)[0], key, value
    rows = dims_of(old[0])[2]
    before = [node.cast_shape(data, [*dims_of(new)[:2], rows, dims_of(new)[3]])
              for data, new in zip(old, (key, value), strict=True)]  # fmt: skip
    if node.attr("past_present_share_buffer", 0):
        return _in_place(node, parts, before, inputs)
    key, value = appended(node, before[0], key), appended(node, before[1], value)
    return masked(node, (query, key, value), rows, which)[0], key, value


def _in_place(
    node: OnnxNode, parts: list[Any], old: list[Any], inputs: tuple[int, int, int]
) -> tuple[Any, Any, Any]:
    """Return the result and the cache, in which the new row is at the number of earlier keys."""
    query, key, value = parts
    mask, more, past = inputs
    batch, heads, _, _ = dims_of(query)
    if not node.has(past):
        node.refuse("past_sequence_length is missing, expected the number of keys in the cache")
    count = node.cast_shape(_vector(node, past), [1])
    count = node.emit(relax.op.astype(count, "int64"))
    place = node.emit(relax.op.broadcast_to(count, [batch]))
    key, value = (written_into(node, before, new, place)
                  for before, new in zip(old, (key, value), strict=True))  # fmt: skip
    rows = dims_of(key)[2]
    columns = positions(node, rows, [1, 1, 1, -1])
    seen = kept(node, node.emit(relax.op.less_equal(columns, count)), LOWEST)
    whole = ScoreExtents(batch, heads, 1, 0, rows)
    masks = [seen]
    if node.has(mask):
        own = replace(whole, keys=node.shape(mask)[-1])
        number = float(node.attr("mask_filter_value", FILTER))
        masks.append(with_columns(node, padding(node, mask, own, number, False), rows))
    if node.has(more):
        own = replace(whole, keys=node.shape(more)[-1])
        masks.append(with_columns(node, bias(node, more, own), rows))
    how = Scores(float(node.attr("scale", 0.0)), mask=summed(node, *masks))
    return attended(node, query, key, value, how)[0], key, value


def _vector(node: OnnxNode, k: int) -> Any:
    data = node.tensor(k)
    return data if node.rank(k) == 1 else node.emit(relax.op.reshape(data, [-1]))
