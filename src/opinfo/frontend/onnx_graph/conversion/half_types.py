"""Half types: nodes compute in float32 and round their results once, as ONNX Runtime's do.

TVM computes in the dtype of its operands, so a sum of 3000 ones is 2048 in float16.

Before: `Softmax(x: float16)`; after: `Cast(Softmax(Cast(x, float32)), float16)`. The operands of
products stay as they are, since their result has a dtype of its own (`accumulated`), and so do
those of operators that only move or select elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ..onnx_node import OnnxNode
from ..values import ListValue, TensorValue, constant, of_expr

HALF = frozenset({"float16", "bfloat16"})
#: Operators that move elements or select them, and those of graphs and sequences.
MOVES = frozenset(
    "BitCast Cast CastLike Clip Compress Concat ConcatFromSequence Constant ConstantOfShape "
    "DepthToSpace Dropout Expand EyeLike Flatten Gather GatherElements GatherND GlobalMaxPool "
    "Identity If Loop Max MaxPool Min NonZero OneHot Pad Relu Reshape ReverseSequence Scan "
    "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
    "Shape Size Slice SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile Transpose "
    "Trilu Unsqueeze Where".split()
)
#: Operators that move elements unless they reduce those that meet.
SCATTERS = frozenset({"ScatterElements", "ScatterND"})
#: Operators whose first two operands are multiplied with a result of another dtype.
PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "FusedConv", "FusedGemm",
                      "FusedMatMul", "TransposeMatMul"})  # fmt: skip

#: Operators of ONNX Runtime that have products inside, or operands of several dtypes, whose
#: converters widen the rest; results are of the first operand's dtype.
MIXED = frozenset(
    "Attention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention GroupNorm "
    "GroupQueryAttention MatMulBnb4 MatMulNBits MoE MultiHeadAttention PackedAttention "
    "PackedMultiHeadAttention QMoE SkipGroupNorm SparseAttention".split()
)

#: Results whose dtype is that of another operand: the operand of each, by the operator.
OTHERS = {"LinearAttention": {1: 3}}


def accumulated(data: Any) -> str | None:
    """Return the dtype of a product's sums, or None if it is the operands' own."""
    return "float32" if str(data.ty.dtype) in HALF else None


def widened(node: OnnxNode, products: bool = True) -> OnnxNode:
    """Return the node with the operands on which it computes; itself if none is of a half type.

    Args:
        node: The node.
        products: Whether the factors of products stay as they are.
    """
    if not any(_is_half(value) for value in node.inputs) or _moves(node):
        return node
    kept = 2 if products and node.op in PRODUCTS else 0
    inputs = [_cast(node, value, "float32") if k >= kept and _is_half(value) else value
              for k, value in enumerate(node.inputs)]  # fmt: skip
    return replace(node, inputs=inputs)


def rounded(node: OnnxNode, values: Sequence[Any]) -> list[Any]:
    """Return results in the dtypes of the node's operator, given what was computed in float32."""
    if not any(_is_half(value) for value in node.inputs):
        return list(values)
    dtypes = _result_dtypes(node, len(values))
    return [
        _cast(node, value, dtype) if isinstance(value, TensorValue) and value.dtype == "float32"
        and dtype in HALF else value
        for value, dtype in zip(values, dtypes, strict=True)
    ]  # fmt: skip


def _is_half(value: Any) -> bool:
    return isinstance(value, TensorValue) and value.dtype in HALF


def _moves(node: OnnxNode) -> bool:
    if any(isinstance(value, ListValue) for value in node.inputs):
        return True
    if node.domain and node.op in MIXED:
        return True
    return node.op in MOVES or (
        node.op in SCATTERS and node.text("reduction", "none") in ("none", "")
    )


def _cast(node: OnnxNode, value: TensorValue, dtype: str) -> TensorValue:
    if value.is_constant and value.elements is not None:
        return constant(value.elements.astype(np.dtype(dtype)))  # onnx registers bfloat16
    if value.elements is not None:
        return TensorValue(dtype, value.elements)
    return of_expr(node.emit(relax.op.astype(node.graph.tensor(value), dtype)))


def _result_dtypes(node: OnnxNode, count: int) -> list[str | None]:
    """Return the dtypes that results share with operands, by the variables of the schema's types.

    Operators without a schema are those of ONNX Runtime, whose results are of the operands' dtype.
    """
    import onnx

    if node.domain and node.op in MIXED:
        return [node.value(0).dtype] * count
    half = next(value.dtype for value in node.inputs if _is_half(value))
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
    except onnx.defs.SchemaError:
        others = OTHERS.get(node.op, {}) if node.domain else {}
        return [node.value(others[k]).dtype if k in others and node.has(others[k]) else half
                for k in range(count)]  # fmt: skip
    dtypes: dict[str, str] = {}
    for k, value in enumerate(node.inputs):
        if isinstance(value, TensorValue):
            formal = schema.inputs[min(k, len(schema.inputs) - 1)]
            dtypes.setdefault(formal.type_str, value.dtype)
    formals = [schema.outputs[min(k, len(schema.outputs) - 1)] for k in range(count)]
    return [dtypes.get(formal.type_str) for formal in formals]
