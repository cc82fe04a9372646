"""Elementwise operators whose conversion by TVM is not an operator, or is not exact."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from ...analysis.support.tvm_compat import GenericConst, array_of
from ..onnx_graph.attributes import dtype_name
from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.conversion.tvm_converters import broadcast, convert
from ..onnx_graph.narrow_types import as_bytes, check_result
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.values import TensorValue

#: Bounds are inputs from this operator set on; attributes before, whose defaults are of float32.
BOUNDS_AS_INPUTS = 11


@converts("Identity")
def identity(node: OnnxNode) -> Any:
    """Return the input, which may be a sequence."""
    return node.inputs[0]


@converts("Dropout")
def dropout(node: OnnxNode) -> list[Any]:
    """Return the input; training is refused."""
    if node.has(2) and node.array(2, "training_mode").reshape(-1)[0]:
        node.refuse("training_mode is true, expected inference")
    if not node.wants(1):
        return [node.value(0), None]
    ones = relax.const(np.array(True), "bool")
    return [node.value(0), relax.op.full(node.shape(0), ones, "bool")]


@converts("Cast", "CastLike")
def cast(node: OnnxNode) -> Any:
    """Convert the dtype; bool is whether an element is not 0."""
    to = dtype_name(node.attrs["to"]) if node.op == "Cast" else node.dtype(1)
    check_result(node, to)
    value = as_bytes(node, 0)
    data, own = node.graph.tensor(value), value.dtype
    if own == to:
        return data
    if to == "bool" and "float" not in own:  # TVM's `not_equal` is false for NaN
        return relax.op.not_equal(data, relax.const(0, own))
    return relax.op.astype(data, to)


@converts("Clip")
def clip(node: OnnxNode) -> Any:
    """Limit to a range; a bound that is missing is the least or the largest finite number."""
    data, dtype = node.tensor(0), node.dtype(0)
    bounds = [_bound(node, 1, "min"), _bound(node, 2, "max")]
    known = not any(isinstance(b, tvm.ir.Expr) or b is None for b in bounds)
    if known and np.dtype(dtype).kind == "f":
        # TVM limits from above first; by ONNX, max holds where it is below min.
        return relax.op.clip(data, min(bounds), bounds[1])
    for bound, combine in zip(bounds, (relax.op.maximum, relax.op.minimum), strict=True):
        if bound is not None and not isinstance(bound, tvm.ir.Expr):
            bound = relax.const(np.array(bound, dtype), dtype)
        data = data if bound is None else node.emit(combine(data, bound))
    return data


def _bound(node: OnnxNode, k: int, name: str) -> Any:
    """Return a bound as a number, a tensor, or None for one that changes nothing."""
    if node.has(k):
        value: TensorValue = node.value(k)
        if not value.is_constant or value.elements is None:
            return relax.op.reshape(node.tensor(k), ())
        number = value.elements.reshape(-1)[0].item()  # integers of 64 bits have no float
        return None if np.isnan(number) else number
    number = node.attr(name)
    if number is not None:
        return float(number)
    kind = np.dtype(node.dtype(0))
    if kind.kind in "iu":
        return None
    largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    if node.opset < BOUNDS_AS_INPUTS:
        largest = min(largest, float(np.finfo("float32").max))
    return largest if name == "max" else -largest


@converts("Celu")
def celu(node: OnnxNode) -> Any:
    """Return max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    data, dtype = node.tensor(0), node.dtype(0)
    alpha, zero = relax.const(float(node.attr("alpha", 1.0)), dtype), relax.const(0.0, dtype)
    inner = relax.op.subtract(relax.op.exp(relax.op.divide(data, alpha)), relax.const(1.0, dtype))
    low = relax.op.minimum(zero, relax.op.multiply(alpha, inner))
    return relax.op.add(relax.op.maximum(zero, data), low)


@converts("Equal")
def equal(node: OnnxNode) -> Any:
    """Compare elements; TVM's code of an equality of bools does not compile."""
    if node.dtype(0) != "bool":
        return convert(node)
    first, second = broadcast(node, [node.tensor(0), node.tensor(1)])
    return relax.op.logical_not(node.emit(relax.op.logical_xor(first, second)))


@converts("Sign")
def sign(node: OnnxNode) -> Any:
    """Return -1, 0 or 1, or NaN; TVM's lowering has no sign of unsigned integers or of NaN."""
    data, dtype = node.tensor(0), node.dtype(0)
    if np.dtype(dtype).kind == "u":
        return relax.op.minimum(data, relax.const(np.array(1, dtype), dtype))
    signs = relax.op.sign(data)
    if "float" not in dtype:
        return signs
    return relax.op.where(node.emit(relax.op.isnan(data)), data, node.emit(signs))


@converts("IsInf")
def is_infinite(node: OnnxNode) -> Any:
    """Return where elements are infinite, of both signs or one."""
    data, zero = node.tensor(0), relax.const(0, node.dtype(0))
    signs = {"detect_positive": relax.op.greater, "detect_negative": relax.op.less}
    infinite = node.emit(relax.op.isinf(data))
    for name, other in zip(signs, reversed(signs.values()), strict=True):
        if not node.attr(name, 1):
            infinite = node.emit(relax.op.logical_and(infinite, node.emit(other(data, zero))))
    return infinite


@converts("BitShift")
def bit_shift(node: OnnxNode) -> Any:
    """Shift bits; an amount that is negative, or as large as the width, shifts all of them out."""
    data, amount = broadcast(node, [node.tensor(0), node.tensor(1)])
    dtype = np.dtype(node.dtype(0))
    last = relax.const(np.array(dtype.itemsize * 8 - 1, dtype), str(dtype))
    zero = relax.const(np.array(0, dtype), str(dtype))
    out = node.emit(relax.op.logical_or(node.emit(relax.op.greater(amount, last)),
                                        node.emit(relax.op.less(amount, zero))))  # fmt: skip
    right = node.text("direction", "") == "RIGHT"
    inside = node.emit(relax.op.where(out, last if right else zero, amount))
    shifted = node.emit((relax.op.right_shift if right else relax.op.left_shift)(data, inside))
    if right and dtype.kind == "i":  # the sign fills what is shifted in
        return shifted
    return relax.op.where(out, zero, shifted)


@converts("LpNormalization")
def lp_normalization(node: OnnxNode) -> Any:
    """Divide by the sum of absolute values along an axis, or by the root of that of squares."""
    order = int(node.attr("p", 2))
    if order not in (1, 2):
        node.refuse(f"p is {order}, expected 1 or 2")
    data, axis = node.tensor(0), node.axis(-1, node.rank(0))
    size = node.emit(relax.op.abs(data) if order == 1 else relax.op.multiply(data, data))
    norm = node.emit(relax.op.sum(size, axis, keepdims=True))
    norm = norm if order == 1 else node.emit(relax.op.sqrt(norm))
    # Zeros stay zeros, as in ONNX Runtime.
    zero, one = (relax.const(value, node.dtype(0)) for value in (0.0, 1.0))
    divisor = node.emit(relax.op.where(relax.op.equal(norm, zero), one, norm))
    return relax.op.divide(data, divisor)


@converts("Einsum")
def einsum(node: OnnxNode) -> Any:
    """Return a sum over named axes."""
    tensors = [node.tensor(k) for k in range(len(node.inputs))]
    result = relax.op.einsum(relax.Tuple(tensors), node.text("equation", "").replace(" ", ""))
    if not any(dim == 0 for t in tensors for dim in dims_of(t) if isinstance(dim, int)):
        return result
    # A loop of TVM over no elements leaves the sum unwritten.
    return relax.op.zeros(node.emit(result).ty.shape, node.dtype(0))


@converts("Sum", "Mean", "Max", "Min")
def combined(node: OnnxNode) -> Any:
    """Combine any number of tensors element by element, in their order."""
    tensors = broadcast(node, [node.tensor(k) for k in range(len(node.inputs))])
    if node.op in ("Max", "Min"):
        return functools.reduce(lambda a, b: node.emit(_limit(node, a, b)), tensors)
    total = functools.reduce(lambda a, b: node.emit(relax.op.add(a, b)), tensors)
    if node.op != "Mean" or len(tensors) == 1:
        return total
    return relax.op.divide(total, relax.const(len(tensors), node.dtype(0)))


def _limit(node: OnnxNode, first: Any, second: Any) -> Any:
    """Return the larger or the smaller elements; NaN if one of them is NaN.

    TVM's `maximum(a, b)` is `a > b ? a : b`, which is `b` if `a` is NaN. So a constant is `a`,
    unless it has NaN.
    """
    combine = relax.op.maximum if node.op == "Max" else relax.op.minimum
    if isinstance(second, GenericConst):
        first, second = second, first
    result = combine(first, second)
    if "float" not in node.dtype(0) or (
        isinstance(first, GenericConst) and not np.isnan(array_of(first).numpy()).any()
    ):
        return result
    return relax.op.where(relax.op.isnan(first), first, node.emit(result))
