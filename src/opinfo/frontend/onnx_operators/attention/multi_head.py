"""MultiHeadAttention and Attention of ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_absent, check_attributes, count_of_heads
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from .heads import Scores, appended, attended, hidden_size, split, total
from .score_masks import ScoreExtents, bias, causal, padding, summed

#: What is added for keys that are masked, unless the node says otherwise.
FILTER = -10000.0


@dataclass(frozen=True)
class MaskInputs:
    """Which inputs of an attention node are its masks; `packed` as of `score_masks.padding`."""

    mask: int
    bias: int
    packed: bool


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: OnnxNode) -> list[Any]:
    """Attend to projected keys and values, and to those of earlier calls."""
    check_attributes(node, "num_heads scale mask_filter_value unidirectional", {})
    check_absent(node, {8: "past_sequence_length", 9: "cache_indirection"})
    heads = count_of_heads(node, "num_heads")
    query, key, value = operands_of(node, heads)
    if node.has(6) != node.has(7):
        node.refuse("past_key or past_value is missing, expected both or none")
    past: Any = 0
    if node.has(6):
        outer = [*dims_of(key)[:2]]
        if node.has(1) and node.rank(1) == 4:
            node.refuse("past_key beside keys that are a cache already, expected one of them")
        past = node.shape(6)[2]
        old = [node.cast_shape(node.tensor(k), [*outer, past, dims_of(own)[3]])
               for k, own in ((6, key), (7, value))]  # fmt: skip
        key, value = appended(node, old[0], key), appended(node, old[1], value)
    result, scores = masked(node, (query, key, value), past, MaskInputs(4, 5, packed=False))
    return [result, key, value, scores]


def operands_of(node: OnnxNode, heads: int) -> list[Any]:
    """Return inputs 0 to 2 as [batch, heads, length, size], plus their parts of input 3."""
    packed = _unpacked(node, heads)
    if packed is None:
        batch = node.shape(0)[0]
        packed = [node.tensor(0)]
        for k in (1, 2):
            if not node.has(k):
                node.refuse(
                    f"input {k} is missing, expected keys and values, or all of them packed"
                )
            packed.append(node.cast_shape(node.tensor(k), [batch, *node.shape(k)[1:]]))
    ranks = [len(dims_of(data)) for data in packed]
    if ranks[0] != 3 or ranks[1] != ranks[2] or ranks[1] not in (3, 4):
        node.refuse(f"queries, keys and values of {ranks} dimensions, expected [3, 3, 3], or "
                    "[3, 4, 4] for a cache")  # fmt: skip
    if node.has(3):
        packed = _biased(node, packed)
    length = dims_of(packed[1])[1 if ranks[1] == 3 else 2]
    parts = [split(node, data, heads, "its input") if len(dims_of(data)) == 3 else data
             for data in packed]  # fmt: skip
    batch, _, _, size = dims_of(parts[0])
    parts[1] = node.cast_shape(parts[1], [batch, heads, length, size])
    parts[2] = node.cast_shape(parts[2], [batch, heads, length, dims_of(parts[2])[3]])
    return parts


def _unpacked(node: OnnxNode, heads: int) -> list[Any] | None:
    """Return operands that are packed as [batch, length, heads, 2 or 3, size]; None if none are."""
    parts = []
    for k in (0, 1):
        if node.has(k) and node.rank(k) == 5:
            batch, length, own, count, size = node.shape(k)
            if own != heads or count != 3 - k or not isinstance(size, int):
                node.refuse(f"packed heads of the shape {node.shape(k)}, expected [batch, length, "
                            f"{heads}, {3 - k}, a number]")  # fmt: skip
            pieces = [relax.op.take(node.tensor(k), relax.const(j), 3) for j in range(count)]
            flat = [node.reshape(node.emit(p), [batch, length, heads * size]) for p in pieces]
            parts = [*([node.tensor(0)] if k else []), *flat]
    return parts or None


def _biased(node: OnnxNode, parts: list[Any]) -> list[Any]:
    """Add to queries, keys and values their parts of input 3; those of a cache have none."""
    sizes = [
        hidden_size(node, part, "its input") * (1 if len(dims_of(part)) == 3 else dims_of(part)[1])
        for part in parts
    ]
    whole, first, result = node.cast_shape(node.tensor(3), [sum(sizes)]), 0, []
    for part, size in zip(parts, sizes, strict=True):
        if len(dims_of(part)) == 3:
            own = node.emit(relax.op.strided_slice(whole, [0], [first], [first + size], [1]))
            part = node.emit(relax.op.add(part, own))
        first += size
        result.append(part)
    return result


def masked(node: OnnxNode, operands: tuple[Any, Any, Any], past: Any, which: MaskInputs) -> Any:
    """Return the result and the scores of heads, with the masks of a node."""
    query, key, value = operands
    batch, heads, queries, _ = dims_of(query)
    sizes = ScoreExtents(batch, heads, queries, past, dims_of(key)[2])
    if node.attr("unidirectional", 0):  # runtimes differ in what a query sees of other keys
        node.require(node.arithmetic.equation(sizes.keys, total(node, past, queries)))
    number = float(node.attr("mask_filter_value", FILTER))
    mask = summed(
        node, bias(node, which.bias, sizes),
        padding(node, which.mask, sizes, number, which.packed) if node.has(which.mask) else None,
        causal(node, sizes) if node.attr("unidirectional", 0) else None,
    )  # fmt: skip
    how = Scores(float(node.attr("scale", 0.0)), mask=mask)
    return attended(node, query, key, value, how)


@converts("Attention", domain=MICROSOFT)
def attention(node: OnnxNode) -> list[Any]:
    """Project to queries, keys and values with one matrix, and attend."""
    # Without do_rotary, rotary_embedding_dim changes nothing.
    check_attributes(
        node,
        "num_heads scale mask_filter_value unidirectional qkv_hidden_sizes rotary_embedding_dim",
        {"do_rotary": 0, "past_present_share_buffer": 0},
    )
    check_absent(node, {6: "past_sequence_length"})
    product = node.emit(relax.op.matmul(node.tensor(0), node.tensor(1),
                                        out_dtype=accumulated(node.tensor(0))))  # fmt: skip
    if node.has(2):
        dtype = str(product.ty.dtype)
        own = node.tensor(2) if node.dtype(2) == dtype else node.emit(
            relax.op.astype(node.tensor(2), dtype))  # fmt: skip
        product = node.emit(relax.op.add(product, own))
    if str(product.ty.dtype) != node.dtype(0):
        product = node.emit(relax.op.astype(product, node.dtype(0)))
    return of_projections(node, product, MaskInputs(3, 5, packed=True), 4)


def of_projections(node: OnnxNode, product: Any, which: MaskInputs, past: int) -> list[Any]:
    """Return the result of queries, keys and values in one tensor, and keys and values.

    Args:
        node: The node.
        product: [batch, length, sizes of queries, keys and values].
        which: The inputs that are masks.
        past: The input of earlier keys and values, [2, batch, heads, length, size].
    """
    heads = count_of_heads(node, "num_heads")
    width = hidden_size(node, product, "its weights")
    sizes = [int(size) for size in node.attr("qkv_hidden_sizes") or [width // 3] * 3]
    if len(sizes) != 3 or sum(sizes) != width or sizes[0] != sizes[1] or min(sizes) < 1:
        node.refuse(f"qkv_hidden_sizes are {sizes}, expected two equal ones and a third of the sum "
                    f"{width}")  # fmt: skip
    ends = [sum(sizes[: k + 1]) for k in range(3)]
    parts = [node.emit(relax.op.strided_slice(product, [2], [end - size], [end], [1]))
             for size, end in zip(sizes, ends, strict=True)]  # fmt: skip
    query, key, value = (split(node, part, heads, "its weights") for part in parts)
    length: Any = 0
    if node.has(past):
        length = node.shape(past)[3]
        old = node.cast_shape(node.tensor(past), [2, *dims_of(key)[:2], length, dims_of(key)[3]])
        key, value = (
            appended(node, node.emit(relax.op.take(old, relax.const(k), 0)), own)
            for k, own in ((0, key), (1, value))
        )
    keys = total(node, length, dims_of(query)[2])
    key, value = (node.cast_shape(x, [*dims_of(x)[:2], keys, dims_of(x)[3]]) for x in (key, value))
    result, _ = masked(node, (query, key, value), length, which)
    present = node.emit(relax.op.stack([key, value], 0)) if node.wants(1) else None
    return [result, present]
