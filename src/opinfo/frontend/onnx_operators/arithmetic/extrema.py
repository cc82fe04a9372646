"""Largest and smallest elements along axes, of infinities, booleans and empty sets.

TVM starts a maximum of floats from the lowest finite number, so that of `[-inf, -inf]` is -3.4e38.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ...formulas.float_extrema import extremum_of_floats
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import convert
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.values import of_expr

#: Axes are an input of reductions from this operator set on; of sums, from an earlier one.
AXES_AS_INPUT, AXES_OF_SUMS_AS_INPUT = 18, 13


@converts("ReduceMax", "ReduceMin")
def extremum(node: OnnxNode) -> Any:
    """Return the largest or smallest elements; those of empty sets are the other limit."""
    rank, dtype = node.rank(0), node.dtype(0)
    axes = reduced_axes(node, rank)
    keep, largest = bool(node.attr("keepdims", 1)), node.op == "ReduceMax"
    if not axes:
        return node.value(0)
    data = node.tensor(0)
    if has_none(node, axes):
        return of_nothing(node, axes, _limit(dtype, not largest))
    if np.dtype(dtype).kind == "f":
        return node.builder.emit_te(extremum_of_floats, data, axes, keep, largest)
    reduce = relax.op.max if largest else relax.op.min
    if dtype != "bool":
        return reduce(data, axes, keep)
    whole = node.emit(relax.op.astype(data, "uint8"))
    if largest:  # the largest of no uint8 is 0, the smallest of none is 255
        return relax.op.astype(node.emit(relax.op.max(whole, axes, keep)), "bool")
    return relax.op.not_equal(node.emit(relax.op.min(whole, axes, keep)), relax.const(0, "uint8"))


def has_none(node: OnnxNode, axes: Sequence[int]) -> bool:
    """Return whether an axis that is reduced is known to have no elements."""
    return any(isinstance(dim := node.shape(0)[axis], int) and dim == 0 for axis in axes)


def of_nothing(node: OnnxNode, axes: Sequence[int], number: Any) -> Any:
    """Return what is reduced from no elements; a loop of TVM over none leaves it unwritten."""
    keep = bool(node.attr("keepdims", 1))
    dims = [1 if k in axes else dim for k, dim in enumerate(node.shape(0)) if keep or k not in axes]
    return relax.op.broadcast_to(relax.const(number, node.dtype(0)), dims)


def _limit(dtype: str, largest: bool) -> Any:
    """Return the largest or smallest number of a dtype, infinities included."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return largest
    if kind == "f":
        return np.inf if largest else -np.inf
    return np.iinfo(dtype).max if largest else np.iinfo(dtype).min


def reduced_axes(node: OnnxNode, rank: int) -> list[int]:
    """Return the axes over which a node reduces, counted from the front.

    Raises:
        NotConvertible: They are computed at run time, repeat, or are outside of the tensor.
    """
    if node.opset < (AXES_OF_SUMS_AS_INPUT if node.op == "ReduceSum" else AXES_AS_INPUT):
        axes = list(node.attr("axes") or [])
    else:
        axes = [int(axis) for axis in node.array(1, "axes").reshape(-1)] if node.has(1) else []
    if not axes:
        return [] if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    if any(not -rank <= axis < rank for axis in axes):
        node.refuse(f"axes are {axes}, expected -{rank} to {rank - 1}")
    result = [axis % rank for axis in axes]
    if len(set(result)) < len(result):
        node.refuse(f"axes are {axes}, expected different ones")
    return result


@converts("ArgMax", "ArgMin")
def place_of_extremum(node: OnnxNode) -> Any:
    """Return where the largest or smallest elements are.

    TVM's place is -1 where no element is above the lowest finite number; there, the place is that
    of the first element that is finite, else of the first of all; or of the last ones.
    """
    axis = node.axis(0, node.rank(0))
    # TVM refuses axes below 0 before opset 11; exporters write them, and ONNX Runtime takes them.
    node = replace(node, attrs={**node.attrs, "axis": axis})
    places = node.emit(convert(node))
    if np.dtype(node.dtype(0)).kind != "f":
        return _place_of_integers(node, places, axis)
    limit = relax.const(float("-inf" if node.op == "ArgMax" else "inf"), node.dtype(0))
    above = relax.op.not_equal(node.tensor(0), limit)
    finite = node.emit(relax.op.astype(node.emit(above), "int32"))
    if node.op == "ArgMin":
        finite = node.emit(relax.op.negative(finite))
    others = node.emit(convert(replace(node, inputs=[of_expr(finite)])))
    extent = node.emit(relax.op.reshape(node.shape_tensor([node.shape(0)[axis]]), ()))
    inside = relax.op.logical_and(
        node.emit(relax.op.greater_equal(places, relax.const(0, "int64"))),
        node.emit(relax.op.less(places, extent)),  # counted from the end, no place is the extent
    )
    return relax.op.where(node.emit(inside), places, others)


def _place_of_integers(node: OnnxNode, places: Any, axis: int) -> Any:
    """Return places where none is of elements that all are the least, or the largest, number."""
    if not node.attr("select_last_index", 0):
        return relax.op.maximum(places, relax.const(0, "int64"))
    last = node.arithmetic.subtract(node.shape(0)[axis], 1)
    extent = node.emit(relax.op.reshape(node.shape_tensor([last]), ()))
    return relax.op.minimum(places, extent)


def largest_of_floats(node: OnnxNode, data: Any, axes: Sequence[int]) -> Any:
    """Return the largest elements along axes, which are kept with size 1."""
    return node.builder.emit_te(extremum_of_floats, data, axes, True, True)
