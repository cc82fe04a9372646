"""The bits of a tensor as those of another type."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx

from ..onnx_graph.attributes import dtype_name
from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode


@converts("BitCast")
def bit_cast(node: OnnxNode) -> Any:
    """Return the same bits as elements of a type of the same width."""
    own, to = node.dtype(0), dtype_name(node.attr("to"))
    if np.dtype(own).itemsize != np.dtype(to).itemsize:
        node.refuse(f"from {own} to {to}, expected a type of the same width")
    if own == to:
        return node.value(0)
    if own == "bool":
        return relax.op.astype(node.tensor(0), to)
    if to == "bool":
        node.refuse(
            f"from {own} to bool, expected numbers: only the bits of 0 and 1 are truth values"
        )
    return node.builder.emit_te(_reinterpreted, node.tensor(0), to, primfunc_name_hint="bit_cast")


def _reinterpreted(data: Any, to: str) -> Any:
    return te.compute(data.shape, lambda *i: tirx.reinterpret(to, data(*i)), name="bit_cast")
