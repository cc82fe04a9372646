"""Choices by scores, as functions of ONNX's nodes: routers of experts, tokens that may follow."""

from __future__ import annotations

from typing import Any

from ..onnx_graph.contributed_attributes import check_absent, check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from .function_nodes import constant_node, numbers, parsed_nodes

#: Choose the best groups by the sums of their best scores, then the best experts in these groups.
_ROUTER = """
    logits = Reshape (input_0, rows)
    wide = Cast <to = 1> (logits)
    share = Sigmoid (wide)
    score = Add (share, input_1)
    by_group = Reshape (score, grouped)
    most, most_at = TopK (by_group, inner)
    sums = ReduceSum <keepdims = 0> (most, rest)
    best_sums, at_group = TopK (sums, best)
    group_column = Unsqueeze (at_group, rest)
    group_hits = Equal (group_column, group_ids)
    group_bits = Cast <to = 6> (group_hits)
    group_any = ReduceMax <axes = [1], keepdims = 0> (group_bits)
    group_mask = Cast <to = 9> (group_any)
    open = Unsqueeze (group_mask, rest)
    kept = Where (open, by_group, low)
    candidates = Reshape (kept, flat)
    best_scores, at_expert = TopK (candidates, chosen)
    column = Unsqueeze (at_expert, rest)
    hits = Equal (column, expert_ids)
    bits = Cast <to = 6> (hits)
    any = ReduceMax <axes = [1], keepdims = 0> (bits)
    mask = Cast <to = 9> (any)
    above = Max (share, tiny)
    logarithm = Log (above)
    result = Where (mask, logarithm, sentinel)
    output = CastLike (result, input_0)
"""


def expert_router(node: OnnxNode) -> list[Any]:
    """Return logarithms of sigmoids for the best experts of the best groups, else a sentinel.

    A group is as good as the sum of its best experts. The bias decides which are the best.
    """
    check_attributes(node, "group_topk n_group router_sentinel top_k topk_group", {})
    check_absent(node, {2: "projection_weight"})
    if node.wants(1) or node.wants(2):
        node.refuse("its outputs 'selection_scores' and 'router_weights' have no lowering, "
                    "expected 'router_probs' only")  # fmt: skip
    experts = node.shape(0)[-1]
    groups, best, inner, chosen = (
        int(node.attr(name, default)) for name, default in
        (("n_group", 1), ("topk_group", 1), ("group_topk", 2), ("top_k", 0))
    )  # fmt: skip
    if not isinstance(experts, int) or groups < 1 or experts % groups:
        node.refuse(f"it has {experts} experts, expected a multiple of n_group, {groups}", experts)
    size = experts // groups
    if not (1 <= best <= groups and inner >= 1 and 1 <= chosen <= best * size):
        node.refuse(f"it chooses {best} of {groups} groups and {chosen} of {size} experts in each, "
                    "expected no more than there are")  # fmt: skip
    values = {"rows": [-1, experts], "grouped": [0, groups, size], "flat": [0, experts],
              "inner": [min(inner, size)], "best": [best], "chosen": [chosen],
              "group_ids": list(range(groups)), "expert_ids": list(range(experts))}  # fmt: skip
    floats = {
        "low": float("-inf"),
        "tiny": 1e-20,
        "sentinel": node.attr("router_sentinel", -10000.0),
    }
    return [*numbers(), *(constant_node(v, "int64", name) for name, v in values.items()),
            *(constant_node(v, "float32", name) for name, v in floats.items()),
            *parsed_nodes(_ROUTER)]  # fmt: skip


def without_repeated_ngrams(node: OnnxNode) -> list[Any]:
    """Set the scores of tokens to -inf that would repeat a sequence of n tokens of their row."""
    check_attributes(node, "ngram_size", {})
    n = int(node.attr("ngram_size", 0))
    if n < 1:
        node.refuse(f"its attribute 'ngram_size' is {n}, expected at least 1")
    text = """
        length = Shape <start = 1> (input_0)
        windows = Sub (length, before)
        first = Max (windows, zeros)
        count = Squeeze (first)
        places = Range (zero, count, one)
        last = Add (places, before)
        token = Gather <axis = 1> (input_0, last)
        match_0 = Equal (token, token)
    """
    for j in range(n - 1):
        text += f"""
        place_{j} = Add (places, step_{j})
        earlier_{j} = Gather <axis = 1> (input_0, place_{j})
        end_{j} = Add (first, step_{j})
        latest_{j} = Gather <axis = 1> (input_0, end_{j})
        equal_{j} = Equal (earlier_{j}, latest_{j})
        match_{j + 1} = And (match_{j}, equal_{j})"""
    text += f"""
        sizes = Shape (input_1)
        none = ConstantOfShape <value = int32[1] {{0}}> (sizes)
        found = Cast <to = 6> (match_{n - 1})
        times = ScatterElements <axis = 1, reduction = "add"> (none, token, found)
        banned = Cast <to = 9> (times)
        low = CastLike (lowest, input_1)
        output = Where (banned, low, input_1)"""
    return [*numbers(), constant_node([n - 1], "int64", "before"),
            constant_node(float("-inf"), "float32", "lowest"),
            *(constant_node(j, "int64", f"step_{j}") for j in range(n - 1)),
            *parsed_nodes(text)]  # fmt: skip
