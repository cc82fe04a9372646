"""Operators that ONNX Runtime adds in its own domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.conversion.converter_table import MICROSOFT, converts
from ..onnx_graph.onnx_node import OnnxNode
from .convolution import biased, convolved
from .products import gemm

#: The attributes of a convolution's window.
WINDOW = "auto_pad dilations kernel_shape pads strides"
#: The default of norms of sums.
SKIP_EPSILON = 1e-12


@converts("Gelu", domain=MICROSOFT)
def gelu(node: OnnxNode) -> Any:
    """Return x * Phi(x)."""
    check_attributes(node, "", {})
    return relax.op.nn.gelu(node.tensor(0))


@converts("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: OnnxNode) -> Any:
    """Return the Gelu of a sum."""
    check_attributes(node, "", {})
    return relax.op.nn.gelu(relax.op.add(node.tensor(0), node.tensor(1)))


@converts("FastGelu", domain=MICROSOFT)
def fast_gelu(node: OnnxNode) -> Any:
    """Return the Gelu with tanh, of a sum if there is a bias."""
    check_attributes(node, "", {})
    data = node.tensor(0)
    data = relax.op.add(data, node.tensor(1)) if node.has(1) else data
    return relax.op.nn.gelu_tanh(data)


@converts("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: OnnxNode) -> Any:
    """Return x * sigmoid(alpha * x)."""
    check_attributes(node, "alpha", {})
    data, alpha = node.tensor(0), float(node.attr("alpha", 1.702))
    scaled = relax.op.multiply(data, relax.const(alpha, node.dtype(0)))
    return relax.op.multiply(data, relax.op.sigmoid(scaled))


@converts("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: OnnxNode) -> list[Any]:
    """Normalise a sum; the sum is the fourth result."""
    check_attributes(node, "epsilon", {})
    total = node.emit(relax.op.add(node.tensor(0), node.tensor(1)))
    total = node.emit(relax.op.add(total, node.tensor(4))) if node.has(4) else total
    gamma, dtype = node.tensor(2), node.dtype(0)
    beta = node.tensor(3) if node.has(3) else relax.const(np.zeros(node.shape(2), dtype), dtype)
    if node.wants(1) or node.wants(2):
        node.refuse("its mean or variance is read, which has no lowering")
    epsilon = float(node.attr("epsilon", SKIP_EPSILON))
    result = relax.op.nn.layer_norm(total, gamma, beta, -1, epsilon)
    return [result, None, None, total]


@converts("SimplifiedLayerNormalization")
@converts("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_norm(node: OnnxNode) -> list[Any]:
    """Divide by the root of the mean square."""
    check_attributes(node, "axis epsilon", {"stash_type": 1})
    if node.wants(1):
        node.refuse("its inverse deviation is read, which has no lowering")
    axis = node.axis(-1, node.rank(0))
    axes = list(range(axis, node.rank(0)))
    return [relax.op.nn.rms_norm(node.tensor(0), node.tensor(1), axes,
                                 float(node.attr("epsilon", 1e-5)))]  # fmt: skip


@converts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(node: OnnxNode) -> list[Any]:
    """Divide a sum by the root of its mean square; the sum is the fourth result."""
    check_attributes(node, "epsilon", {})
    total = node.emit(relax.op.add(node.tensor(0), node.tensor(1)))
    total = node.emit(relax.op.add(total, node.tensor(3))) if node.has(3) else total
    if node.wants(1) or node.wants(2):
        node.refuse("its mean or variance is read, which has no lowering")
    epsilon = float(node.attr("epsilon", SKIP_EPSILON))
    return [relax.op.nn.rms_norm(total, node.tensor(2), [-1], epsilon), None, None, total]


#: Activations of fused operators.
ACTIVATIONS: dict[str, Any] = {
    "Relu": lambda x, a: relax.op.nn.relu(x),
    "Sigmoid": lambda x, a: relax.op.sigmoid(x),
    "Tanh": lambda x, a: relax.op.tanh(x),
    "LeakyRelu": lambda x, a: relax.op.nn.leakyrelu(x, float(a[0]) if a else 0.01),
    "Clip": lambda x, a: relax.op.clip(x, float(a[0]), float(a[1])),
    "HardSigmoid": lambda x, a: _hard_sigmoid(x, *(map(float, a) if a else (0.2, 0.5))),
}
#: How many numbers an activation takes.
COUNTS = {"LeakyRelu": (0, 1), "Clip": (2,), "HardSigmoid": (0, 2)}


def _hard_sigmoid(data: Any, alpha: float, beta: float) -> Any:
    dtype = str(data.ty.dtype)
    line = relax.op.add(relax.op.multiply(data, relax.const(alpha, dtype)),
                        relax.const(beta, dtype))  # fmt: skip
    return relax.op.clip(line, 0.0, 1.0)


@converts("FusedConv", domain=MICROSOFT)
def fused_conv(node: OnnxNode) -> Any:
    """Convolve, add the bias and another tensor, and activate."""
    check_attributes(node, f"{WINDOW} group activation activation_params", {})
    result = biased(node, convolved(node, node.tensor(0), node.tensor(1)), 2)
    result = relax.op.add(result, node.tensor(3)) if node.has(3) else result
    return _activated(node, result)


@converts("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: OnnxNode) -> Any:
    """Multiply matrices, add, and activate."""
    check_attributes(
        node,
        "alpha beta transA transB activation activation_alpha activation_beta activation_gamma",
        {},
    )
    return _activated(node, gemm(node))


def _activated(node: OnnxNode, result: Any) -> Any:
    name = node.text("activation", "")
    if not name:
        return result
    if name not in ACTIVATIONS:
        node.refuse(f"activation '{name}', expected one of {', '.join(ACTIVATIONS)}")
    numbers = node.attr("activation_params") or [
        node.attrs[f"activation_{part}"] for part in ("alpha", "beta", "gamma")
        if f"activation_{part}" in node.attrs
    ]  # fmt: skip
    counts = COUNTS.get(name, (len(numbers),))
    if len(numbers) not in counts:
        node.refuse(f"activation '{name}' has {len(numbers)} numbers, expected "
                    f"{' or '.join(map(str, counts))}: set activation_params")  # fmt: skip
    return ACTIVATIONS[name](node.emit(result), list(numbers))
