"""LinearAttention of ONNX Runtime, as gated delta networks, RetNet and RWKV have it."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...formulas.matrix_recurrence import LinearAttention
from ...onnx_graph.contributed_attributes import check_attributes, count_of_heads
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode
from ..attention.heads import hidden_size, size_of_head

#: Whether a rule has a gate, and rates.
RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True),
         "gated_delta": (True, True)}  # fmt: skip


@converts("LinearAttention", domain=MICROSOFT)
def linear_attention(node: OnnxNode) -> list[Any]:
    """Return results and the matrices after the last step."""
    # How many steps a runtime computes at once is not read.
    check_attributes(node, "q_num_heads kv_num_heads scale update_rule chunk_size",
                     {"state_window": 0})  # fmt: skip
    rule = node.text("update_rule", "gated_delta")
    if rule not in RULES:
        node.refuse(f"update_rule is '{rule}', expected one of {', '.join(RULES)}")
    kernel = _kernel(node, rule)
    batch, steps = node.shape(0)[:2]
    operands = [node.cast_shape(node.tensor(k), [batch, steps, node.shape(k)[2]]) for k in range(3)]
    sizes = [batch, kernel.values, kernel.depth, kernel.width]
    dtype = node.dtype(0)
    state = node.cast_shape(node.tensor(3), sizes) if node.has(3) else node.emit(
        relax.op.zeros(sizes, dtype))  # fmt: skip
    for k, count in ((4, kernel.gates * kernel.values), (5, kernel.rates)):
        if count:
            operands.append(node.cast_shape(node.tensor(k), [batch, steps, count]))
    parts = node.builder.emit_te(kernel, *operands[:3], state, *operands[3:],
                                 primfunc_name_hint="linear_attention")  # fmt: skip
    return [node.emit(relax.TupleGetItem(parts, k)) for k in (0, 1)]


def _kernel(node: OnnxNode, rule: str) -> LinearAttention:
    queries, values = (count_of_heads(node, name) for name in ("q_num_heads", "kv_num_heads"))
    if queries % values and values % queries:
        node.refuse(f"q_num_heads is {queries} and kv_num_heads {values}, expected one a multiple "
                    "of the other")  # fmt: skip
    for k in range(3):
        if node.rank(k) != 3:
            node.refuse(f"input {k} has {node.rank(k)} dimensions, expected 3")
    query, key, value = (hidden_size(node, node.tensor(k), f"input {k}") for k in range(3))
    depth = size_of_head(node, query, queries, "the query")
    width = size_of_head(node, value, values, "the value")
    keys, rest = divmod(key, depth)
    if rest or not keys or values % keys:
        node.refuse(f"the key has {key} elements, expected {depth} for each of {values} heads, or "
                    "of a divisor of them")  # fmt: skip
    gates = _gates(node, rule, values, depth) if RULES[rule][0] else 0
    rates = _rates(node, rule, values) if RULES[rule][1] else 0
    scale = float(node.attr("scale", 0.0)) or depth**-0.5
    return LinearAttention(queries, keys, values, depth, width, scale, gates, rates)


def _gates(node: OnnxNode, rule: str, heads: int, depth: int) -> int:
    """Return how many numbers the gate of a head has."""
    size = _last(node, 4, "decay", rule)
    if size not in (heads, heads * depth):
        node.refuse(f"decay has {size} elements, expected {heads} or {heads * depth}, one for each "
                    "head or for each element of its key")  # fmt: skip
    return size // heads


def _rates(node: OnnxNode, rule: str, heads: int) -> int:
    """Return for how many heads there are rates: one for all, or one for each."""
    size = _last(node, 5, "beta", rule)
    if size not in (1, heads):
        node.refuse(f"beta has {size} elements, expected 1 or {heads}, one for all heads or for "
                    "each")  # fmt: skip
    return size


def _last(node: OnnxNode, k: int, name: str, rule: str) -> int:
    if not node.has(k):
        node.refuse(f"its input '{name}' is missing, expected it for update_rule '{rule}'")
    if node.rank(k) != 3:
        node.refuse(f"{name} has {node.rank(k)} dimensions, expected 3")
    return hidden_size(node, node.tensor(k), name)
