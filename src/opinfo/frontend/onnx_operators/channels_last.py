"""Layers of ONNX Runtime on images whose channels are the last axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.conversion.converter_table import MICROSOFT, converts
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.values import of_expr
from .contributed import WINDOW, fused_conv
from .pools import max_pool
from .quantized import qlinear_conv


def _first(node: OnnxNode, k: int) -> Any:
    """Return input `k` with its channels behind the batch."""
    rank = node.rank(k)
    if rank < 3:
        node.refuse(f"input {k} has {rank} dimensions, expected at least 3")
    return of_expr(
        node.emit(relax.op.permute_dims(node.tensor(k), [0, rank - 1, *range(1, rank - 1)]))
    )


def _last(node: OnnxNode, result: Any) -> Any:
    result = node.emit(result)
    return relax.op.permute_dims(result, [0, *range(2, result.ty.ndim), 1])


@converts("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def conv(node: OnnxNode) -> Any:
    """Convolve, add the bias and another tensor, and activate."""
    check_attributes(node, f"{WINDOW} group activation activation_params", {})
    inputs = [_first(node, k) if k in (0, 3) and value is not None else value
              for k, value in enumerate(node.inputs)]  # fmt: skip
    return _last(node, fused_conv(replace(node, inputs=inputs)))


@converts("NhwcMaxPool", domain=MICROSOFT)
def pool(node: OnnxNode) -> Any:
    """Return the maximum of each window."""
    check_attributes(node, f"{WINDOW} ceil_mode", {})
    return _last(node, max_pool(replace(node, inputs=[_first(node, 0)])))


@converts("QLinearConv", domain=MICROSOFT)
def quantized_conv(node: OnnxNode) -> Any:
    """Convolve 8-bit integers as QLinearConv of ONNX, on channels of either place."""
    check_attributes(node, f"{WINDOW} group channels_last", {})
    node = replace(node, domain="")
    if not node.attr("channels_last", 0):
        return qlinear_conv(node)
    return _last(node, qlinear_conv(replace(node, inputs=[_first(node, 0), *node.inputs[1:]])))
