"""Arithmetic of ONNX Runtime's own, as functions of ONNX's nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from .function_nodes import constant_node, parsed_nodes


def _dropout(node: OnnxNode, training: int) -> list[Any]:
    """Return the nodes after `total`, which is kept; refuses training, as Dropout of ONNX does."""
    check_attributes(node, "seed", {})  # without training, no number is drawn
    if node.has(training) and node.array(training, "training_mode").reshape(-1)[0]:
        node.refuse("training_mode is true, expected inference: export the model in eval mode")
    if node.op.startswith("Bitmask") and node.wants(1):
        node.refuse("its output 'mask' is read, which has no lowering: export the model for "
                    "inference")  # fmt: skip
    mask = "" if node.op.startswith("Bitmask") else ", output_1"
    return parsed_nodes(f"kept{mask} = Dropout (total)")


def _bias_dropout(node: OnnxNode) -> list[Any]:
    rest = _dropout(node, 4)
    last = "output = Add (kept, input_2)" if node.has(2) else "output = Identity (kept)"
    return [*parsed_nodes("total = Add (input_0, input_1)"), *rest, *parsed_nodes(last)]


def _bitmask_dropout(node: OnnxNode) -> list[Any]:
    rest = _dropout(node, 2)
    return [*parsed_nodes("total = Identity (input_0)"), *rest,
            *parsed_nodes("output = Identity (kept)")]  # fmt: skip


def _complex_product(node: OnnxNode) -> list[Any]:
    """Multiply pairs of a real and an imaginary part, the second one's conjugate if asked for."""
    check_attributes(node, "", {})
    for k in (0, 1):
        if node.shape(k)[-1:] != [2]:
            node.refuse(f"input {k} has the shape {node.shape(k)}, expected a last axis of 2, of "
                        "real and imaginary parts")  # fmt: skip
    first, second = ("Add", "Sub") if node.op == "ComplexMulConj" else ("Sub", "Add")
    # (a + bi)(c + di) = ac - bd + (bc + ad)i
    return parsed_nodes(f"""
        a, b = Split <axis = -1> (input_0)
        c, d = Split <axis = -1> (input_1)
        ac = Mul (a, c)
        bd = Mul (b, d)
        bc = Mul (b, c)
        ad = Mul (a, d)
        real = {first} (ac, bd)
        imaginary = {second} (bc, ad)
        output = Concat <axis = -1> (real, imaginary)""")


def _distances(node: OnnxNode) -> list[Any]:
    """Return the distance of each row of a matrix to each of another."""
    check_attributes(node, "metric", {})
    metric = node.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        node.refuse(f"metric is '{metric}', expected 'euclidean' or 'sqeuclidean': compute others "
                    "by operators of ONNX")  # fmt: skip
    for k in (0, 1):
        if node.rank(k) != 2:
            node.refuse(f"input {k} has {node.rank(k)} dimensions, expected 2")
    last = "Sqrt" if metric == "euclidean" else "Identity"
    return [constant_node([1], "int64", "one"), constant_node([0], "int64", "zero"),
            *parsed_nodes(f"""
        rows = Unsqueeze (input_0, one)
        others = Unsqueeze (input_1, zero)
        difference = Sub (rows, others)
        total = ReduceSumSquare <axes = [2], keepdims = 0> (difference)
        output = {last} (total)""")]  # fmt: skip


def _product_and_gelu(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    bias = ", input_2" if node.has(2) else ""
    return parsed_nodes(f"""
        product = MatMul (input_0, input_1)
        output = com.microsoft.FastGelu (product{bias})""")


def _gated_sum(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    if node.has(3):
        node.refuse("its input 'gate_weight' has no lowering: multiply the gate before the node")
    if node.shape(2)[-1:] != [1]:
        node.refuse(f"its gate has the shape {node.shape(2)}, expected a last axis of 1")
    return parsed_nodes("""
        scaled = Mul (input_1, input_2)
        output = Add (input_0, scaled)""")


def _gated_norm(node: OnnxNode) -> list[Any]:
    """Divide groups of elements by the roots of their mean squares, and gate them, in float32."""
    check_attributes(node, "activation epsilon", {})
    activation, size = node.text("activation", "silu"), node.shape(1)[-1]
    if activation not in ("silu", "swish", "sigmoid"):
        node.refuse(f"activation is '{activation}', expected 'silu', 'swish' or 'sigmoid'")
    if not isinstance(size, int):
        node.refuse("its scale has a symbolic size, expected a number", size)
    outer = [0] * (node.rank(0) - 1)
    gate = "Identity (share)" if activation == "sigmoid" else "Mul (gate, share)"
    return [constant_node([*outer, -1, size], "int64", "groups"),
            constant_node([*outer, -1], "int64", "whole"),
            *parsed_nodes(f"""
        wide = Cast <to = 1> (input_0)
        rows = Reshape (wide, groups)
        scale = Cast <to = 1> (input_1)
        normal = com.microsoft.SimplifiedLayerNormalization <axis = -1,
                 epsilon = {float(node.attr("epsilon", 1e-5))!r}> (rows, scale)
        flat = Reshape (normal, whole)
        gate = Cast <to = 1> (input_2)
        share = Sigmoid (gate)
        factor = {gate}
        result = Mul (flat, factor)
        output = CastLike (result, input_0)""")]  # fmt: skip


def _attention_gate(node: OnnxNode) -> list[Any]:
    """Return decay and update rate of a linear attention, in float32."""
    check_attributes(node, "", {})
    if node.wants(1) and not node.has(3):
        node.refuse("its output 'beta' is read without the input 'b', expected both")
    beta = (
        """
        b = Cast <to = 1> (input_3)
        rate = Sigmoid (b)
        output_1 = CastLike (rate, input_0)"""
        if node.has(3)
        else ""
    )
    return parsed_nodes(f"""
        a = Cast <to = 1> (input_0)
        biased = Add (a, input_1)
        soft = Softplus (biased)
        decay = Mul (soft, input_2)
        output = CastLike (decay, input_0){beta}""")


def _scaled_silu(node: OnnxNode) -> list[Any]:
    check_attributes(node, "alpha", {})
    alpha = [] if node.has(1) else [constant_node(node.attr("alpha", 1.0), "float32", "scale")]
    scale = parsed_nodes("scale = Cast <to = 1> (input_1)") if node.has(1) else alpha
    return [*scale, *parsed_nodes("""
        wide = Cast <to = 1> (input_0)
        product = Mul (wide, scale)
        rounded = CastLike (product, input_0)
        share = Sigmoid (rounded)
        output = Mul (rounded, share)""")]  # fmt: skip


def _gated_linear(node: OnnxNode) -> list[Any]:
    """Return gate * sigmoid(alpha * gate) * (up + beta), both halves limited, in float32."""
    check_attributes(node, "activation_alpha activation_beta limit", {"round_activation": 0})
    limit = float(node.attr("limit", 0.0))
    halves = ("gate_half = Identity (input_0)\nup_half = Identity (input_1)" if node.has(1) else
              "gate_half, up_half = Split <axis = -1> (input_0)")  # fmt: skip
    clips = ("low = Min (gate, high)\nup_low = Min (up, high)\nflat = Max (up_low, least)"
             if limit > 0 else "low = Identity (gate)\nflat = Identity (up)")  # fmt: skip
    numbers = {"high": limit, "least": -limit, "alpha": node.attr("activation_alpha", 1.0),
               "beta": node.attr("activation_beta", 0.0)}  # fmt: skip
    return [*(constant_node(value, "float32", name) for name, value in numbers.items()),
            *parsed_nodes(f"""
        {halves}
        gate = Cast <to = 1> (gate_half)
        up = Cast <to = 1> (up_half)
        {clips}
        scaled = Mul (low, alpha)
        share = Sigmoid (scaled)
        active = Mul (low, share)
        linear = Add (flat, beta)
        result = Mul (active, linear)
        output = CastLike (result, input_0)""")]  # fmt: skip


#: The nodes of each operator, by its name.
BODIES: dict[str, Callable[[OnnxNode], list[Any]]] = {
    "BiasDropout": _bias_dropout, "BitmaskBiasDropout": _bias_dropout,
    "BitmaskDropout": _bitmask_dropout, "CDist": _distances, "ComplexMul": _complex_product,
    "ComplexMulConj": _complex_product, "GatedAdd": _gated_sum, "GatedRMSNorm": _gated_norm,
    "GemmFastGelu": _product_and_gelu, "LinearAttentionGate": _attention_gate,
    "ScaledSiLU": _scaled_silu, "SwiGLU": _gated_linear,
}  # fmt: skip
