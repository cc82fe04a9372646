"""Emit what nodes of ONNX compute as Relax values whose sizes are known or symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..onnx_checks.onnx_schema import check_sizes
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.scalars import Rational, is_expr
from ..onnx_graph.values import AbsentValue, ListValue, NotConvertible, TensorValue, of_expr
from .onnx_scope import known_dims

#: Operators whose results have sizes that depend on data.
DEPENDENT = {"NonZero", "NonMaxSuppression", "Compress", "Slice", "Unsqueeze", "Tile"}


def elements_expr(builder: relax.BlockBuilder, elements: np.ndarray[Any, Any], dtype: str) -> Any:
    """Emit elements that are constants or quotients of sizes."""
    items = [x if isinstance(x, Rational) else Rational(x) for x in elements.reshape(-1)]
    tops = [tvm.tirx.Cast("int64", x.top) if is_expr(x.top) and str(x.top.ty) == "bool"
            else x.top if is_expr(x.top) else int(x.top) for x in items]  # fmt: skip
    expr = builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr(tops)))
    if elements.ndim != 1:
        expr = builder.emit(relax.op.reshape(expr, elements.shape))
    if dtype != "int64":
        expr = builder.emit(relax.op.astype(expr, dtype))
    bottoms = np.array([x.bottom for x in items], dtype="int64").reshape(elements.shape)
    if (bottoms != 1).any():
        divisor = relax.const(bottoms.astype(dtype), dtype)
        expr = builder.emit(relax.op.divide(expr, divisor))
    return expr


def as_values(builder: relax.BlockBuilder, node: OnnxNode, result: Any) -> list[Any]:
    """Return a converter's result as values, with sizes that are all known or symbolic."""
    if isinstance(result, (list, tuple)):
        return [value for part in result for value in as_values(builder, node, part)]
    if result is None or isinstance(result, (TensorValue, ListValue, AbsentValue)):
        return [result]
    if isinstance(result, relax.Tuple):
        return [value for part in result.fields for value in as_values(builder, node, part)]
    expr = builder.normalize(result)
    if not isinstance(expr, relax.Var) and not isinstance(expr, tvm.ir.GenericConst):
        expr = builder.emit(expr)
    if isinstance(expr.ty, relax.TupleType):
        parts = [relax.TupleGetItem(expr, k) for k in range(len(expr.ty.fields))]
        return [value for part in parts for value in as_values(builder, node, part)]
    return [of_expr(_sized(builder, node, expr))]


def _sized(builder: relax.BlockBuilder, node: OnnxNode, expr: Any) -> Any:
    """Give sizes that are only known at run time symbols of their own."""
    if isinstance(expr.ty.shape, relax.ShapeExpr):
        check_sizes(dims_of(expr), np.dtype(str(expr.ty.dtype)).itemsize)
    if isinstance(expr.ty, relax.TensorType) and not isinstance(expr.ty.shape, relax.ShapeExpr):
        if expr.ty.ndim < 0:
            raise NotConvertible("the rank of its result is only known at run time")
        if node.op not in DEPENDENT:
            dims = [d for v in node.inputs for d in known_dims(v)]
            raise NotConvertible("sizes of its inputs are not provably equal", dims)
        dims = [tvm.tirx.Var(f"{node.op.lower()}_{k}", "int64") for k in range(expr.ty.ndim)]
        return builder.match_cast(expr, relax.TensorType(dims, expr.ty.dtype))
    return expr
