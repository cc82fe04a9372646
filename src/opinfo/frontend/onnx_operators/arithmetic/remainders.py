"""Remainders."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.tvm_converters import broadcast, convert


@converts("Mod")
def remainder(node: OnnxNode) -> Any:
    """Return remainders with the sign of the divisor, or of the dividend if `fmod` is 1.

    TVM's floored remainder of floats is `x - floor(x / y) * y`, which is NaN for an infinite `y`.
    """
    if node.attr("fmod", 0) or "float" not in node.dtype(0):
        return convert(node)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    zero = relax.const(0, node.dtype(0))
    rest = node.emit(relax.op.mod(data, by))
    differ = node.emit(relax.op.logical_xor(node.emit(relax.op.less(rest, zero)),
                                            node.emit(relax.op.less(by, zero))))  # fmt: skip
    differ = relax.op.logical_and(differ, node.emit(relax.op.not_equal(rest, zero)))
    return relax.op.where(node.emit(differ), node.emit(relax.op.add(rest, by)), rest)
