"""Quantize and dequantize, which both runtimes fuse with the operators between them."""

from __future__ import annotations

from ....backend.region import Call
from ....patterns.pattern import Node
from ..graph.element_types import SINGLE, SMALL
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, first_tensor, typed


def _axis(call: Call) -> int:
    rank = max(len(call.result.shape), 1)
    return int(call.attrs["axis"]) % rank


def linear(name: str, integer: int) -> OnnxOperator:
    """`QuantizeLinear` or `DequantizeLinear`; ``integer`` is -1 if the result has integers."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        data = first_tensor(call)
        small = call.result.dtype if integer < 0 else data.dtype
        scale, zero = (_vector(writer, x) for x in xs[1:])
        if zero in writer.arrays:
            zero = writer.constant(writer.arrays[zero].astype(small))
        return writer.node(name, [xs[0], scale, zero], axis=_axis(call))

    return OnnxOperator(write, (typed(SMALL if integer < 0 else SINGLE,
                                      SINGLE if integer < 0 else SMALL,
                                      SINGLE, (*SMALL, "int32", "float32")), known))  # fmt: skip


def _vector(writer: GraphWriter, name: str) -> str:
    """A constant of one element as a scalar, as ONNX has it for all channels."""
    array = writer.arrays[name]
    return writer.constant(array.reshape(()) if array.size == 1 else array)


def known(node: Node) -> str | None:
    """Scales and zero points are constants."""
    for k in (1, 2):
        value = node.operand(k)
        if value is not None and not value.constant:
            return f"operand {k} is not constant"
    return None


QUANTIZED: dict[str, OnnxOperator] = {
    "relax.quantize": linear("QuantizeLinear", -1),
    "relax.dequantize": linear("DequantizeLinear", 0),
}
