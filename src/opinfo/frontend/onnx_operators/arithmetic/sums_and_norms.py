"""Sums, means, products, norms and logarithms of sums along axes.

What rounds (roots and logarithms) is computed in float64 for integers, and truncated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from .extrema import has_none, largest_of_floats, of_nothing, reduced_axes

Unary = Callable[[Any], Any]
#: What is applied to elements, how they are combined, and what is applied to the result.
FORMULAS: dict[str, tuple[Unary | None, Callable[..., Any], Unary | None]] = {
    "ReduceSum": (None, relax.op.sum, None),
    "ReduceMean": (None, relax.op.mean, None),
    "ReduceProd": (None, relax.op.prod, None),
    "ReduceL1": (relax.op.abs, relax.op.sum, None),
    "ReduceSumSquare": (lambda x: relax.op.multiply(x, x), relax.op.sum, None),
    "ReduceL2": (lambda x: relax.op.multiply(x, x), relax.op.sum, relax.op.sqrt),
    "ReduceLogSum": (None, relax.op.sum, relax.op.log),
}


@converts(*FORMULAS)
def reduction(node: OnnxNode) -> Any:
    """Combine the elements along axes; without axes, each element is alone."""
    before, combine, after = FORMULAS[node.op]
    axes, data = _operands(node, bool(after))
    if has_none(node, axes):
        return of_nothing(node, axes, _number_of_none(node))
    data = node.emit(before(data)) if before else data
    if node.op == "ReduceMean" and "float" not in node.dtype(0):
        return _mean_of_integers(node, data, axes)
    if axes:
        data = node.emit(combine(data, axes, bool(node.attr("keepdims", 1))))
    return _in_dtype(node, node.emit(after(data)) if after else data)


def _number_of_none(node: OnnxNode) -> float:
    """Return the sum, product, mean, norm or logarithm of no elements."""
    if node.op in ("ReduceLogSum", "ReduceLogSumExp"):
        return -np.inf if np.dtype(node.dtype(0)).kind == "f" else 0.0
    # A mean of nothing is undefined in ONNX; ONNX Runtime has 0. Along a symbolic axis that is
    # empty in a call, a mean of floats is NaN: it stays the operator that backends take.
    return 1.0 if node.op == "ReduceProd" else 0.0


def _mean_of_integers(node: OnnxNode, data: Any, axes: Sequence[int]) -> Any:
    """Return the mean, truncated; that of TVM's operator has the dtype of sizes."""
    dims = node.shape(0)
    sizes = [dims[axis] for axis in axes]
    number = node.arithmetic.maximum(functools.reduce(node.arithmetic.multiply, sizes, 1), 1)
    count = node.shape_tensor([number], node.dtype(0))  # a CPU would end the process for 0
    total = relax.op.sum(data, axes, bool(node.attr("keepdims", 1))) if axes else data
    return relax.op.divide(node.emit(total), node.reshape(count, ()))


@converts("ReduceLogSumExp")
def log_sum_exp(node: OnnxNode) -> Any:
    """Return the logarithm of the sum of exponentials, which are shifted by a finite maximum."""
    axes, data = _operands(node, True)
    if not axes:
        return node.value(0)
    if has_none(node, axes):
        return of_nothing(node, axes, _number_of_none(node))
    dtype = str(data.ty.dtype)
    most = largest_of_floats(node, data, axes)
    shift = node.emit(relax.op.where(relax.op.isfinite(most), most, relax.const(0.0, dtype)))
    total = node.emit(relax.op.sum(relax.op.exp(relax.op.subtract(data, shift)), axes, True))
    result = node.emit(relax.op.add(relax.op.log(total), shift))
    if not node.attr("keepdims", 1):
        result = node.emit(relax.op.squeeze(result, axes))
    return _in_dtype(node, result)


def _operands(node: OnnxNode, rounds: bool) -> tuple[Sequence[int], Any]:
    data = node.tensor(0)
    if rounds and np.dtype(node.dtype(0)).kind in "iu":
        data = node.emit(relax.op.astype(data, "float64"))
    return reduced_axes(node, node.rank(0)), data


def _in_dtype(node: OnnxNode, result: Any) -> Any:
    own = node.dtype(0)
    return result if str(result.ty.dtype) == own else relax.op.astype(result, own)
