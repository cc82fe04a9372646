"""Range: numbers that rise or fall from a start to a limit."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from ...checks.data_sizes import LIMIT, data_sizes
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from .data_bounds import quotient

op = relax.op


@converts("Range")
def arange(node: OnnxNode) -> Any:
    """Count from a start to a limit: numbers, sizes, or data."""
    if any(node.value(k).elements is None for k in range(3)):
        return _range_of_data(node)
    dtype = node.dtype(0)
    start, limit, step = (node.integers(k, name)[0] for k, name in
                          enumerate(("the start", "the limit", "the step")))  # fmt: skip
    if not isinstance(step, int) or step == 0:
        node.refuse("the step is symbolic or 0, expected a number", step)
    arithmetic = node.arithmetic
    span = arithmetic.subtract(limit, start) if step > 0 else arithmetic.subtract(start, limit)
    count = arithmetic.floor_divide(arithmetic.add(span, abs(step) - 1), abs(step))
    if not arithmetic.proves(
        tirx.GE(count, tirx.IntImm("int64", 0)) if is_expr(count) else count >= 0
    ):
        count = arithmetic.maximum(count, 0)
    result = node.emit(op.arange(0, count, 1, "int64"))
    if step != 1:
        result = node.emit(op.multiply(result, relax.const(step, "int64")))
    if not isinstance(start, int) or start != 0:
        first = node.shape_tensor([start])
        result = node.emit(op.add(result, first))
    return result if dtype == "int64" else op.astype(result, dtype)


def _range_of_data(node: OnnxNode) -> Any:
    """Return start + k * step for each k below ceil((limit - start) / step), as ONNX counts.

    A call fails if the step is 0, or the count is infinite or NaN.
    """
    dtype, emit = node.dtype(0), node.emit
    whole = dtype.startswith(("int", "uint"))
    wide = "int64" if whole else "float64" if dtype == "float64" else "float32"
    start, limit, step = (emit(op.reshape(emit(op.astype(node.tensor(k), wide)), []))
                          for k in range(3))  # fmt: skip
    zero = relax.const(0, wide)
    valid = emit(op.not_equal(step, zero))
    span = emit(op.subtract(limit, start))
    if whole:
        count = quotient(node, span, step)
    else:
        exact = emit(op.divide(*(emit(op.astype(x, "float64")) for x in (span, step))))
        most = relax.const(float(LIMIT), "float64")
        valid = emit(op.logical_and(valid, emit(op.less(exact, most))))  # not so for NaN
        low = emit(op.maximum(exact, relax.const(0.0, "float64")))
        count = emit(op.astype(emit(op.ceil(emit(op.where(valid, low, most)))), "int64"))
    count = emit(op.reshape(emit(op.maximum(count, relax.const(0, "int64"))), [1]))
    (extent,) = data_sizes(node.builder, count, "range", valid)
    places = emit(op.astype(emit(op.arange(0, extent, 1, "int64")), wide))
    result = emit(op.add(start, emit(op.multiply(places, step))))
    return result if wide == dtype else op.astype(result, dtype)
