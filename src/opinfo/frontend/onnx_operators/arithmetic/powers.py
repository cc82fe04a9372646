"""Powers of integers, or of mixed dtypes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...formulas.integer_powers import integer_powers
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import broadcast
from ...onnx_graph.onnx_node import OnnxNode, dims_of


@converts("Pow")
def power(node: OnnxNode) -> Any:
    """Return powers in the dtype of the base; those of integers wrap around."""
    base, exponent = node.dtype(0), node.dtype(1)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    if "float" in base and base == exponent:  # TVM's converter folds constants with numpy
        return relax.op.power(data, by)
    if "float" in base:
        return relax.op.power(data, node.emit(relax.op.astype(by, base)))
    if "float" in exponent:
        data, by = (node.emit(relax.op.astype(x, "float64")) for x in (data, by))
        return relax.op.astype(node.emit(relax.op.power(data, by)), base)
    shaped = node.builder.normalize(relax.op.add(data, node.emit(relax.op.astype(by, base))))
    shape = dims_of(shaped)
    if exponent != "uint64":
        by = node.emit(relax.op.astype(by, "int64"))
    return integer_powers(node.builder, data, by, shape)
