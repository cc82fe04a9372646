"""Activations of experts, some of which multiply two halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode, dims_of

#: Activations of one tensor; Gelu is the one with tanh.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relax.op.nn.relu, "gelu": relax.op.nn.gelu_tanh, "silu": relax.op.nn.silu,
    "identity": lambda data: data,
}  # fmt: skip
GATED = "swiglu"
#: Values of `swiglu_fusion`: gates and linear parts take turns, or one follows the other.
INTERLEAVED, JOINED = 1, 2


def activation_of(node: OnnxNode, third: bool) -> str:
    """Return the name of the activation; refuses one that does not fit the products.

    Args:
        node: The node.
        third: Whether a third product multiplies the activated first one.
    """
    name, fusion = node.text("activation_type", "relu"), int(node.attr("swiglu_fusion", 0))
    if name not in ACTIVATIONS and name != GATED:
        node.refuse(f"its attribute 'activation_type' is '{name}', expected one of "
                    f"{', '.join((*ACTIVATIONS, GATED))}")  # fmt: skip
    if fusion not in (0, INTERLEAVED, JOINED):
        node.refuse(f"its attribute 'swiglu_fusion' is {fusion}, expected 0, 1 or 2")
    if fusion and (name != GATED or third):
        node.refuse(f"its attribute 'swiglu_fusion' is {fusion} with "
                    f"{'fc3_experts_weights' if third else name}, expected 0")  # fmt: skip
    if name == GATED and not fusion and not third:
        node.refuse("its attribute 'swiglu_fusion' is 0 without fc3_experts_weights, expected both "
                    "or one of them")  # fmt: skip
    return name


def parts_of(node: OnnxNode, third: bool) -> int:
    """Return how many numbers of the first product become one."""
    return 2 if activation_of(node, third) == GATED and not third else 1


def activated(node: OnnxNode, first: Any, third: Any) -> Any:
    """Return the activation of the first product, [rows, 1, size], times that of the third."""
    name = activation_of(node, third is not None)
    if name != GATED:
        result = node.emit(ACTIVATIONS[name](first))
        return result if third is None else node.emit(relax.op.multiply(result, third))
    gate, linear = (first, third) if third is not None else _halves(node, first)
    limit = node.attr("swiglu_limit")
    if limit is not None:
        bound = relax.const(float(limit), "float32")
        gate = node.emit(relax.op.minimum(gate, bound))
        linear = node.emit(relax.op.clip(linear, -float(limit), float(limit)))
    alpha, beta = (float(node.attr(f"activation_{k}", v)) for k, v in (("alpha", 1), ("beta", 0)))
    scaled = gate if alpha == 1 else _by_number(node, relax.op.multiply, gate, alpha)
    shifted = _by_number(node, relax.op.add, linear, beta) if beta else linear
    gated = node.emit(relax.op.multiply(gate, node.emit(relax.op.sigmoid(scaled))))
    return node.emit(relax.op.multiply(gated, shifted))


def _halves(node: OnnxNode, data: Any) -> tuple[Any, Any]:
    """Return the gates and the linear parts of [rows, 1, 2 * size]."""
    rows, _, size = dims_of(data)
    half, interleaved = size // 2, int(node.attr("swiglu_fusion", 0)) == INTERLEAVED
    pairs = node.reshape(data, [rows, 1, *((half, 2) if interleaved else (2, half))])
    axis = 3 if interleaved else 2
    gate, linear = (node.emit(relax.op.take(pairs, relax.const(k), axis)) for k in (0, 1))
    return gate, linear


def _by_number(node: OnnxNode, combine: Any, data: Any, number: float) -> Any:
    return node.emit(combine(data, relax.const(number, "float32")))
