"""Parts and shapes of tensors where bounds and sizes are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ...checks.data_sizes import data_sizes
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim

op = relax.op


def quotient(node: OnnxNode, span: Any, step: Any) -> Any:
    """Return the quotient of integers, rounded up; any number if the divisor is 0."""
    emit = node.emit
    zero, one = (relax.const(number, "int64") for number in (0, 1))
    falls = emit(op.less(step, zero))
    span, size = (emit(op.where(falls, emit(op.negative(x)), x)) for x in (span, step))
    size = emit(op.maximum(size, one))
    return emit(op.floor_divide(emit(op.add(span, emit(op.subtract(size, one)))), size))


def part_by_data(
    node: OnnxNode, data: Any, axis: int, dim: Dim, bounds: tuple[Any, Any], step: int
) -> Any:
    """Return each `step`-th element along an axis, from a start and before an end.

    Args:
        node: The node for which it is.
        data: The tensor.
        axis: The axis.
        dim: Its size.
        bounds: Start and end, scalars of int64; negative ones count from the end.
        step: The step, which is not 0.
    """
    emit = node.emit
    extent = emit(op.reshape(node.shape_tensor([dim]), []))
    zero, one = (relax.const(number, "int64") for number in (0, 1))
    end = emit(op.subtract(extent, one)) if step < 0 else extent
    lowest = (zero, relax.const(-1, "int64")) if step < 0 else (zero, zero)
    first, last = (
        emit(op.minimum(emit(op.maximum(emit(op.where(
            emit(op.less(bound, zero)), emit(op.add(bound, extent)), bound)), low)), end))
        for bound, low in zip(bounds, lowest, strict=True)
    )  # fmt: skip
    stride = relax.const(step, "int64")
    count = quotient(node, emit(op.subtract(last, first)), stride)
    count = emit(op.reshape(emit(op.maximum(count, zero)), [1]))
    (number,) = data_sizes(node.builder, count, "part")
    places = emit(op.multiply(emit(op.arange(0, number, 1, "int64")), stride))
    return emit(op.take(data, emit(op.add(places, first)), axis))


def shape_by_data(node: OnnxNode, k: int, own: Sequence[Dim], total: Dim) -> list[Dim]:
    """Return the shape that input `k` of a Reshape holds, with 0 and -1 replaced.

    A call fails for a shape of another number of elements.

    Args:
        node: The node.
        k: The input.
        own: The sizes of the tensor that is reshaped.
        total: Their product.
    """
    emit, (count,) = node.emit, node.shape(k)
    if is_expr(count):
        node.refuse("the number of its dimensions is symbolic, expected a number", count)
    if count == 0:
        return []
    zero, one, rest = (relax.const(number, "int64") for number in (0, 1, -1))
    target = emit(op.astype(node.tensor(k), "int64"))
    if not node.attr("allowzero", 0):
        kept = node.shape_tensor([own[j] if j < len(own) else 0 for j in range(count)])
        target = emit(op.where(emit(op.equal(target, zero)), kept, target))
    whole = emit(op.reshape(node.shape_tensor([total]), []))
    is_rest = emit(op.equal(target, rest))
    others = emit(op.prod(emit(op.where(is_rest, one, target))))
    remaining = emit(op.floor_divide(whole, emit(op.maximum(others, one))))
    sizes = emit(op.where(is_rest, remaining, target))
    alone = emit(op.less_equal(emit(op.sum(emit(op.astype(is_rest, "int64")))), one))
    exact = emit(op.equal(emit(op.prod(sizes)), whole))
    return data_sizes(node.builder, sizes, "reshape", emit(op.logical_and(alone, exact)))
