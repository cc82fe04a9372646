"""Regions as ONNX files."""

from __future__ import annotations

from typing import Any

from ....analysis.proposal.proposal import Constant
from ...backend.region import Region, Tensor
from .graph_writer import GraphWriter
from .ops import WRITE

#: The opset and the version of the file format: ONNX Runtime 1.17 supports both.
OPSET, IR_VERSION = 20, 9


def model(region: Region) -> bytes:
    """The region as an ONNX file; inputs are ``x<k>``, results ``y<k>``."""
    import onnx
    from onnx import helper

    writer = GraphWriter()
    constants = [writer.constant(a) for a in region.constants]
    names: list[str] = []

    def name(operand: Tensor | Constant, dtype: str) -> str:
        if isinstance(operand, Constant):
            return writer.scalar(operand.value, dtype)
        if operand.source == "input":
            return f"x{operand.index}"
        return (constants if operand.source == "constant" else names)[operand.index]

    for call in region.calls:
        names.append(
            WRITE[call.op](writer, call, [name(o, call.result.dtype) for o in call.operands])
        )
    for k, tensor in enumerate(region.results):
        writer.nodes.append(helper.make_node("Identity", [names[tensor.index]], [f"y{k}"]))
    inputs = [_value(f"x{k}", t) for k, t in enumerate(region.inputs)]
    outputs = [_value(f"y{k}", t) for k, t in enumerate(region.results)]
    graph = helper.make_graph(writer.nodes, region.symbol, inputs, outputs, writer.initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    onnx_model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(onnx_model)
    return bytes(onnx_model.SerializeToString())


def _value(name: str, tensor: Tensor) -> Any:
    from onnx import TensorProto, helper

    extents = [e if isinstance(e, int) else None for e in tensor.shape]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
