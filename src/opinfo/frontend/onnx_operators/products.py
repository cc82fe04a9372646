"""Products of matrices; those of half types are added up in float32."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.conversion.converter_table import MICROSOFT, converts
from ..onnx_graph.conversion.half_types import accumulated
from ..onnx_graph.onnx_node import OnnxNode, dims_of


@converts("MatMul")
def matmul(node: OnnxNode) -> Any:
    """Multiply matrices, broadcasting other axes."""
    return _product(node, node.tensor(0), node.tensor(1))


@converts("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: OnnxNode) -> Any:
    """Multiply matrices that may be transposed, times a number."""
    check_attributes(node, "alpha transA transB transBatchA transBatchB", {})
    return _times(node, _product(node, *_sides(node)), "alpha")


@converts("Gemm")
def gemm(node: OnnxNode) -> Any:
    """Return alpha * A @ B + beta * C, where A and B may be transposed."""
    result = _times(node, _product(node, *_sides(node)), "alpha")
    return relax.op.add(result, _times(node, node.tensor(2), "beta")) if node.has(2) else result


def _product(node: OnnxNode, left: Any, right: Any) -> Any:
    product = relax.op.matmul(left, right, out_dtype=accumulated(left))
    if isinstance(depth := dims_of(left)[-1], int) and depth == 0:
        # TVM leaves a sum of no terms unwritten.
        whole = node.builder.normalize(product)
        return relax.op.zeros(dims_of(whole), str(whole.ty.dtype))
    return product


def _sides(node: OnnxNode) -> list[Any]:
    sides = []
    for k, name in enumerate(("transA", "transB")):
        data, rank = node.tensor(k), node.rank(k)
        if node.attr(f"transBatch{name[-1]}", 0) and rank > 2:  # the first axis is that of rows
            data = node.emit(relax.op.permute_dims(data, [*range(1, rank - 1), 0, rank - 1]))
        if node.attr(name, 0) and rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            data = node.emit(relax.op.permute_dims(data, order))
        sides.append(data)
    return sides


def _times(node: OnnxNode, data: Any, name: str) -> Any:
    """Return data times the number that an attribute gives."""
    factor, data = float(node.attr(name, 1.0)), node.builder.normalize(data)
    if factor == 1:
        return data
    return relax.op.multiply(data, relax.const(factor, str(data.ty.dtype)))
