"""TVM's own converters, for operators that have none here."""

from __future__ import annotations

from typing import Any

from ..onnx_node import OnnxNode, dims_of
from ..values import ListValue, NotConvertible
from .converter_table import MICROSOFT

#: Operators of ONNX Runtime that TVM converts; in ONNX's domain it has others of these names.
CONTRIBUTED = {"FastGelu", "BiasGelu", "Gelu", "EmbedLayerNormalization"}
#: TVM converts another operator of this name, or ignores attributes and inputs of this one.
WRONG = {"Attention", "MatMulInteger16", "AllClassNMS", "FastGelu", "BiasGelu", "Constant",
         "SkipLayerNormalization", "EmbedLayerNormalization", "Optional", "OptionalHasElement",
         "OptionalGetElement", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
         "SequenceInsert", "SequenceLength", "ConcatFromSequence", "SplitToSequence", "SequenceAt",
         "Unique"}  # fmt: skip
#: Operators whose inputs broadcast; sizes that differ are made equal first (see `broadcast`).
BROADCASTS = {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Equal", "Less", "LessOrEqual", "Greater",
              "GreaterOrEqual", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
              "BitShift", "Where", "PRelu"}  # fmt: skip


def has(node: OnnxNode) -> bool:
    """Return whether TVM converts a node's operator correctly."""
    if node.domain == MICROSOFT:
        return node.op in CONTRIBUTED and node.op in _table()
    return not node.domain and node.op in _table() and node.op not in WRONG


def convert(node: OnnxNode) -> Any:
    """Return TVM's expression for a node."""
    from tvm.relax.frontend.onnx.onnx_frontend import onnx_input

    if any(isinstance(value, ListValue) for value in node.inputs):
        raise NotConvertible("an input is a sequence, expected tensors")
    tensors = [node.tensor(k) if node.has(k) else None for k in range(len(node.inputs))]
    if node.op in BROADCASTS:
        tensors = broadcast(node, tensors)
    attrs = dict(node.attrs)
    attrs["tvm_custom"] = {"name": node.outputs[0], "num_outputs": len(node.outputs)}
    converter = _table()[node.op].get_converter(node.opset)
    return converter(node.builder, onnx_input(tensors), attrs, [{}, {}])


def broadcast(node: OnnxNode, tensors: list[Any]) -> list[Any]:
    """Make sizes equal that broadcasting needs equal and that are not provably so.

    A size that is checked at run time may then not broadcast from 1; it fails instead.
    """
    shapes = [[node.simplify(d) for d in dims_of(tensor)] for tensor in tensors]
    rank = max(len(shape) for shape in shapes)
    target: list[Any] = [1] * rank
    for shape in shapes:
        for k, dim in enumerate(shape, rank - len(shape)):
            if isinstance(target[k], int) and (target[k] == 1 or not isinstance(dim, int)):
                target[k] = dim if target[k] == 1 else target[k]
            elif isinstance(dim, int) and dim != 1:
                target[k] = dim
    return [
        node.cast_shape(
            tensor,
            [
                dim
                if isinstance(dim, int) and (dim == 1 or isinstance(target[k], int))
                else target[k]
                for k, dim in enumerate(shape, rank - len(shape))
            ],
        )
        for tensor, shape in zip(tensors, shapes, strict=True)
    ]


def _table() -> dict[str, Any]:
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    return _get_convert_map()  # type: ignore[no-any-return]
