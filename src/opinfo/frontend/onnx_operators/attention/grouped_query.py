"""GroupQueryAttention: heads share keys and values, which a cache keeps for later calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.contributed_attributes import check_absent, check_attributes, count_of_heads
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.scalars import is_expr
from .cache_rows import with_columns, written_after
from .heads import Scores, attended, hidden_size, split
from .rotary_heads import cosines_and_sines, rotated
from .score_masks import LOWEST, ScoreExtents, bias, kept, positions, summed

NEUTRAL = {"sliding_window_cache": 0, "qk_output": 0, "k_quant_type": "NONE",
           "v_quant_type": "NONE", "kv_cache_bit_width": 0}  # fmt: skip


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: OnnxNode) -> list[Any]:
    """Attend to new keys and to those of a cache, and return both.

    Row `j` of the result's cache is that of the old one before the end of a sequence, then that of
    the new keys, then 0.
    """
    check_attributes(
        node, "num_heads kv_num_heads scale softcap do_rotary rotary_interleaved "
        "local_window_size smooth_softmax causal qk_norm_epsilon", NEUTRAL)  # fmt: skip
    check_absent(node, {12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight",
                        16: "query_seqlens"})  # fmt: skip
    if node.wants(3):
        node.refuse("its output 'output_qk' is read, which has no lowering")
    query, key, value = grouped_operands(node)
    batch, _, queries, _ = dims_of(query)
    before = keys_before(node, batch, queries)
    if node.attr("do_rotary", 0):
        query, key = rotated_operands(node, (query, key), before)
    key, value = _present(node, key, value, before)
    sizes = ScoreExtents(batch, dims_of(query)[1], queries, 0, dims_of(key)[2])
    mask = summed(node, _mask(node, sizes, before), _bias(node, sizes))
    how = Scores(float(node.attr("scale", 0.0)), float(node.attr("softcap", 0.0)), mask,
                 _sink(node))  # fmt: skip
    return [attended(node, query, key, value, how)[0], key, value, None]


def grouped_operands(node: OnnxNode) -> list[Any]:
    """Return queries, keys and values as [batch, heads, length, size]."""
    heads, groups = count_of_heads(node, "num_heads"), count_of_heads(node, "kv_num_heads")
    if heads % groups:
        node.refuse(f"num_heads is {heads}, expected a multiple of kv_num_heads, {groups}")
    if node.has(1) != node.has(2):
        node.refuse("key or value is missing, expected both, or both packed with the query")
    batch, length = node.shape(0)[:2]
    if node.has(1):
        parts = [node.cast_shape(node.tensor(k), [batch, length, node.shape(k)[2]])
                 for k in range(3)]  # fmt: skip
    else:
        whole = node.tensor(0)
        size, rest = divmod(hidden_size(node, whole, "the query"), heads + 2 * groups)
        if rest:
            node.refuse(f"packed heads, expected {heads} + 2 * {groups} of one size")
        ends = [heads * size, (heads + groups) * size, (heads + 2 * groups) * size]
        parts = [node.emit(relax.op.strided_slice(whole, [2], [first], [last], [1]))
                 for first, last in zip([0, *ends], ends, strict=False)]  # fmt: skip
    counts = (heads, groups, groups)
    return [split(node, part, n, "its input") for part, n in zip(parts, counts, strict=True)]


def keys_before(node: OnnxNode, batch: Any, queries: Any) -> Any:
    """Return how many keys each sequence had before this call, int64 [batch].

    Of a padded prompt, `seqlens_k` counts fewer keys than there are queries.
    """
    last = node.cast_shape(node.emit(relax.op.reshape(node.tensor(5), [-1])), [batch])
    last = node.emit(relax.op.astype(last, "int64"))
    less = node.shape_tensor([node.arithmetic.add(queries, -1)])
    count = node.emit(relax.op.subtract(last, less))
    return node.emit(relax.op.maximum(count, relax.const(0, "int64")))


def places_of(node: OnnxNode, before: Any, queries: Any) -> Any:
    """Return the position of each query in its sequence, [batch, queries]."""
    first = node.emit(relax.op.expand_dims(before, 1))
    return node.emit(relax.op.add(first, positions(node, queries, [1, -1])))


def rotated_operands(node: OnnxNode, operands: tuple[Any, Any], before: Any) -> list[Any]:
    """Return queries and keys, rotated by their positions."""
    if not node.has(7) or not node.has(8):
        node.refuse("do_rotary without cos_cache and sin_cache, expected both")
    batch, _, queries, _ = dims_of(operands[0])
    place = (node.cast_shape(node.tensor(9), [batch, queries]) if node.has(9)
             else places_of(node, before, queries))  # fmt: skip
    angles = cosines_and_sines(node, (7, 8), place)
    pairs = bool(node.attr("rotary_interleaved", 0))
    results = []
    for data in operands:
        turned = rotated(node, data, angles, pairs)
        dtype = str(data.ty.dtype)
        results.append(turned if dtype == "float32" else node.emit(relax.op.astype(turned, dtype)))
    return results


def _present(node: OnnxNode, key: Any, value: Any, before: Any) -> list[Any]:
    """Return keys and values with those of the cache, as long as the longer of both."""
    if node.has(3) != node.has(4):
        node.refuse("past_key or past_value is missing, expected both or none")
    length = _total(node)
    results = []
    for k, new in ((3, key), (4, value)):
        batch, groups, _, size = dims_of(new)
        old = (node.cast_shape(node.tensor(k), [batch, groups, node.shape(k)[2], size])
               if node.has(k) else None)  # fmt: skip
        longest = length if old is None else node.arithmetic.maximum(length, dims_of(old)[2])
        results.append(written_after(node, old, new, before, node.simplify(longest)))
    return results


def _total(node: OnnxNode) -> Any:
    """Return the length of the longest sequence with its new keys."""
    if node.value(6).elements is None:
        node.refuse("total_sequence_length is computed at run time, expected a constant or a "
                    "size, such as that of the attention mask: make it an initializer")  # fmt: skip
    return node.integers(6, "total_sequence_length")[0]


def _mask(node: OnnxNode, sizes: ScoreExtents, before: Any) -> Any:
    """Return the mask of keys that are later, or beyond the window; all keys of a sequence else."""
    columns = positions(node, sizes.keys, [1, 1, 1, -1])
    window = int(node.attr("local_window_size", -1))
    place = places_of(node, before, sizes.queries)
    place = node.reshape(place, [sizes.batch, 1, sizes.queries, 1])
    if not node.attr("causal", 1):
        if window != -1:
            node.refuse(f"local_window_size is {window} without causal, expected -1")
        last = node.emit(relax.op.astype(node.tensor(5), "int64"))
        place = node.reshape(last, [sizes.batch, 1, 1, 1])
    keep = node.emit(relax.op.less_equal(columns, place))
    if window > 0:
        first = node.emit(relax.op.subtract(place, relax.const(window, "int64")))
        keep = node.emit(relax.op.logical_and(keep, relax.op.greater(columns, first)))
    return kept(node, keep, LOWEST)


def _bias(node: OnnxNode, sizes: ScoreExtents) -> Any:
    """Return the bias of the scores; a cache may have more rows than the bias has columns."""
    if not node.has(10):
        return None
    keys, total = node.shape(10)[-1], _total(node)
    if node.arithmetic.equal(keys, total) and not node.arithmetic.equal(total, sizes.keys):
        return with_columns(node, bias(node, 10, replace(sizes, keys=total)), sizes.keys)
    if (
        not node.arithmetic.equal(keys, sizes.keys)
        and not is_expr(sizes.keys)
        and not is_expr(keys)
    ):
        node.refuse(f"attention_bias has {keys} columns, expected one for each of {total} keys or "
                    f"of {sizes.keys} rows of the cache")  # fmt: skip
    return bias(node, 10, sizes)


def _sink(node: OnnxNode) -> Any:
    """Return the score of a key without a value, for each head or for all; None without one."""
    if node.has(11):
        heads = count_of_heads(node, "num_heads")
        data = node.cast_shape(node.tensor(11), [heads])
        return data if node.dtype(11) == "float32" else node.emit(
            relax.op.astype(data, "float32"))  # fmt: skip
    return relax.const(np.zeros(1, "float32")) if node.attr("smooth_softmax", 0) else None
