"""Inverses and determinants of square matrices."""

from __future__ import annotations

import functools
from typing import Any

from tvm import relax

from ...formulas.elimination import determinants, inverses
from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.values import Dim


@converts("Inverse", domain=MICROSOFT)
def inverse(node: OnnxNode) -> Any:
    """Return the inverse of each matrix, which has one by the operator's definition."""
    check_attributes(node, "", {})
    data, _ = _matrices(node)
    both = node.builder.emit_te(inverses, data, primfunc_name_hint="inverse")
    return node.reshape(node.emit(relax.TupleGetItem(both, 0)), node.shape(0))


@converts("Det")
def determinant(node: OnnxNode) -> Any:
    """Return the determinant of each matrix."""
    data, outer = _matrices(node)
    both = node.builder.emit_te(determinants, data, primfunc_name_hint="determinant")
    return node.reshape(node.emit(relax.TupleGetItem(both, 0)), outer)


def _matrices(node: OnnxNode) -> tuple[Any, list[Dim]]:
    """Return the input as [batch, n, n], and its other sizes."""
    dims = node.shape(0)
    if len(dims) < 2:
        node.refuse(f"its input has {len(dims)} dimensions, expected at least 2")
    *outer, rows, columns = dims
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        node.refuse(f"its input has matrices of {rows} rows and {columns} columns, expected as "
                    "many of both")  # fmt: skip
    data = node.cast_shape(node.tensor(0), [*outer, rows, rows])
    count = functools.reduce(node.arithmetic.multiply, outer, 1)
    return node.reshape(data, [count, rows, rows]), outer
