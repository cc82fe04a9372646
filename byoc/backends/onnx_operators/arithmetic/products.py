"""Products of matrices, and attention, which is made of them."""

from __future__ import annotations

from math import sqrt

import numpy as np

from .....analysis.composites.products import TRANSPOSED_MATMUL
from ....backend.region import Call, Tensor
from ....patterns.pattern import Node
from ..graph.element_types import FLOAT
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, fixed, plain, typed

_FLOATS = typed(FLOAT)
_SUMS = typed((*FLOAT, "int32"))
#: The axes (batch, sequence, head, element) of an attention in the order of a batched product.
_BY_HEAD = [0, 2, 1, 3]


def einsum(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node("Einsum", xs, equation=str(call.attrs["subscripts"]))


def transposed_matmul(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A product of matrices whose last two axes are swapped first."""
    operands = []
    for name, operand, swap in zip(xs, call.operands, call.attrs["transposed"], strict=True):
        assert isinstance(operand, Tensor)
        rank = len(operand.shape)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        operands.append(writer.transpose(name, swapped) if swap else name)
    return writer.node("MatMul", operands)


def attention(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """softmax(q kᵀ · scale + bias) v for each head."""
    query, key = (o for o in call.operands[:2] if isinstance(o, Tensor))
    dtype = call.result.dtype
    q, v = (writer.transpose(xs[k], _BY_HEAD) for k in (0, 2))
    k = writer.transpose(xs[1], [0, 2, 3, 1])
    scale = plain_scale(call)
    scale = 1 / sqrt(query.shape[-1]) if scale is None else scale
    scores = writer.node("Mul", [writer.node("MatMul", [q, k]), writer.scalar(scale, dtype)])
    if len(xs) > 3:
        scores = writer.node("Add", [scores, xs[3]])
    if (mask := call.attrs.get("causal_mask")) is not None:
        rows, columns = int(query.shape[1]), int(key.shape[1])
        offset = abs(rows - columns) if str(mask) == "BottomRight" else 0
        seen = np.tril(np.ones((rows, columns)), offset) > 0
        hidden = writer.constant(np.where(seen, 0.0, -np.inf).astype(dtype))
        scores = writer.node("Add", [scores, hidden])
    weights = writer.node("Softmax", [scores], axis=-1)
    return writer.transpose(writer.node("MatMul", [weights, v]), _BY_HEAD)


def plain_scale(call: Call) -> float | None:
    value = call.attrs.get("scale")
    return None if value is None else float(getattr(value, "value", value))


def attended(node: Node) -> str | None:
    """The head size is a number; with a mask, so are the lengths, and each row sees an element."""
    query = node.operand(0)
    if query is None or not isinstance(query.shape[-1], int):
        return "the head size is symbolic, expected a number"
    if plain(node, "window_size") is not None:
        return "window_size is set, expected None"
    mask = plain(node, "causal_mask")
    if mask is None:
        return None
    reason = fixed(node)
    return None if reason is None else reason.reason


def _alike(node: Node) -> str | None:
    """Products of int32 are sums of int32, as ONNX has no other type of its results."""
    kinds = sorted({value.dtype for value in node.tensors})
    if "int32" not in kinds or len(kinds) == 1:
        return None
    return f"the dtypes are {' and '.join(kinds)}, expected one"


def _one_dtype(node: Node) -> str | None:
    """The operands have the dtype of the result."""
    kinds = sorted({value.dtype for value in node.tensors})
    return None if len(kinds) == 1 else f"the dtypes are {' and '.join(kinds)}, expected one"


PRODUCTS: dict[str, OnnxOperator] = {
    "relax.matmul": OnnxOperator(lambda w, c, xs: w.node("MatMul", xs), (_SUMS, _alike)),
    TRANSPOSED_MATMUL: OnnxOperator(transposed_matmul, (_FLOATS, _one_dtype)),
    "relax.einsum": OnnxOperator(einsum, (_FLOATS,)),
    "relax.nn.attention": OnnxOperator(attention, (_FLOATS, attended)),
    "relax.nn.attention_bias": OnnxOperator(attention, (_FLOATS, attended)),
    "relax.outer": OnnxOperator(
        lambda w, c, xs: w.node("Mul", [w.node("Unsqueeze", [xs[0], w.ints([1])]), xs[1]]),
        (_FLOATS,)),
}  # fmt: skip
