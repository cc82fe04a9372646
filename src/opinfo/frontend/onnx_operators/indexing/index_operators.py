"""Gather, TopK and other operators that take elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import same
from .indices_from_start import check_constant, positive, positive_points


@converts("Gather")
def gather(node: OnnxNode) -> Any:
    """Take slices along an axis; negative indices count from the end."""
    dims = node.shape(0)
    axis = node.axis(0, len(dims))
    return relax.op.take(node.tensor(0), positive(node, 1, dims[axis]), axis)


@converts("GatherElements")
def gather_elements(node: OnnxNode) -> Any:
    """Take elements along an axis."""
    dims = node.shape(0)
    axis = node.axis(0, len(dims))
    _require_inside(node, node.shape(1), dims, axis)
    return relax.op.gather_elements(node.tensor(0), positive(node, 1, dims[axis]), axis)


def _require_inside(node: OnnxNode, own: Sequence[Any], dims: Sequence[Any], axis: int) -> None:
    """Require that indices along an axis do not exceed the data on any other axis."""
    if len(own) != len(dims):
        node.refuse(f"indices have {len(own)} dimensions, expected {len(dims)}")
    for k, (count, dim) in enumerate(zip(own, dims, strict=True)):
        if k != axis:
            node.require(dim >= count)


@converts("GatherND")
def gather_nd(node: OnnxNode) -> Any:
    """Take elements, or slices, at points."""
    batch = int(node.attr("batch_dims", 0))
    dims, own = node.shape(0), node.shape(1)
    if not 0 <= batch < min(len(dims), len(own)):
        node.refuse(f"batch_dims is {batch}, expected 0 to {min(len(dims), len(own)) - 1}")
    for first, second in zip(dims[:batch], own[:batch], strict=True):
        node.require(node.arithmetic.equation(first, second))
    points = positive_points(node, 1, dims[batch:])
    return relax.op.gather_nd(node.tensor(0), points, batch)


@converts("ScatterND")
def scatter_nd(node: OnnxNode) -> Any:
    """Write elements, or slices, at points."""
    points = positive_points(node, 1, node.shape(0))
    return relax.op.scatter_nd(node.tensor(0), points, node.tensor(2), _reduction(node))


@converts("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode) -> Any:
    """Write elements along an axis."""
    dims, own = node.shape(0), node.shape(1)
    axis = node.axis(0, len(dims))
    _require_inside(node, own, dims, axis)
    if node.value(1).is_constant:
        check_constant(node, node.array(1, "indices"), [dims[axis]])
    data = node.tensor(0)
    may_differ = (0, axis, axis + 1)  # of axes before and after, TVM's code assumes those of data
    if all(same(a, b) or k in may_differ for k, (a, b) in enumerate(zip(dims, own, strict=True))):
        return relax.op.scatter_elements(data, node.tensor(1), node.tensor(2), axis,
                                         _reduction(node))  # fmt: skip
    index = positive(node, 1, dims[axis])
    points = [index if k == axis else _positions(node, k, own) for k in range(len(dims))]
    return relax.op.scatter_nd(data, node.emit(relax.op.stack(points, -1)), node.tensor(2),
                               _reduction(node))  # fmt: skip


def _positions(node: OnnxNode, axis: int, dims: Sequence[Any]) -> Any:
    """Return a tensor of sizes `dims` with the position of each element on an axis."""
    positions = node.emit(relax.op.arange(0, dims[axis], 1, node.dtype(1)))
    shape = [dims[axis] if k == axis else 1 for k in range(len(dims))]
    return node.emit(relax.op.broadcast_to(node.emit(relax.op.reshape(positions, shape)),
                                           list(dims)))  # fmt: skip


def _reduction(node: OnnxNode) -> str:
    reduction = node.text("reduction", "none")
    if reduction not in ("none", "add", "mul", "min", "max"):
        node.refuse(f"reduction is '{reduction}', expected none, add, mul, min or max")
    return "update" if reduction == "none" else reduction


@converts("TopK")
def topk(node: OnnxNode) -> Any:
    """Return the largest or smallest elements along an axis, and their indices."""
    count = node.integers(1, "k")[0] if node.has(1) else int(node.attr("k"))
    axis = node.axis(-1, node.rank(0))
    largest = bool(node.attr("largest", 1))
    if not isinstance(count, int):
        if node.arithmetic.equal(count, node.shape(0)[axis]):  # TVM takes -1 for all elements
            return relax.op.topk(node.tensor(0), -1, axis, "both", largest, "int64")
        node.refuse("k is symbolic, expected a constant, or the size of its axis", count)
    if count < 0:
        node.refuse(f"k is {count}, expected 0 or more")
    if count == 0:  # TVM takes it for all elements
        dims = [0 if k == axis else dim for k, dim in enumerate(node.shape(0))]
        return [relax.op.zeros(dims, dtype) for dtype in (node.dtype(0), "int64")]
    return relax.op.topk(node.tensor(0), count, axis, "both", largest, "int64")


@converts("OneHot")
def one_hot(node: OnnxNode) -> Any:
    """Return one value where an index is met on a new axis of `depth` positions, else another."""
    (depth,), rank = node.integers(1, "depth"), node.rank(0)
    axis = int(node.attr("axis", -1))
    axis += rank + 1 if axis < 0 else 0
    dtype = "int64" if "float" in node.dtype(0) else node.dtype(0)
    indices = node.emit(relax.op.astype(node.tensor(0), dtype))
    places = node.emit(relax.op.astype(relax.op.arange(0, depth, 1, "int64"), dtype))
    places = node.reshape(places, [depth, *[1] * (rank - axis)])
    if not dtype.startswith("u"):
        extent = node.reshape(node.shape_tensor([depth], dtype), ())
        below = relax.op.less(indices, relax.const(0, dtype))
        indices = node.emit(relax.op.where(below, relax.op.add(indices, extent), indices))
    met = relax.op.equal(node.emit(relax.op.expand_dims(indices, axis)), places)
    off, on = (node.emit(relax.op.take(node.tensor(2), relax.const(k), 0)) for k in (0, 1))
    return relax.op.where(node.emit(met), on, off)


@converts("ReverseSequence")
def reverse_sequence(node: OnnxNode) -> Any:
    """Reverse the first elements of each sequence of a batch.

    Lengths below 2 reverse nothing; larger ones than there are steps would read outside.
    """
    batch, time = int(node.attr("batch_axis", 1)), int(node.attr("time_axis", 0))
    if {batch, time} != {0, 1}:
        node.refuse(f"batch_axis is {batch} and time_axis {time}, expected 0 and 1")
    steps, lengths = node.shape(0)[time], node.value(1)
    if lengths.is_constant and isinstance(steps, int):
        outside = [int(n) for n in node.array(1, "lengths").reshape(-1) if not 0 <= n <= steps]
        if outside:
            node.refuse(f"a sequence has the length {outside[0]}, expected 0 to {steps}")
    return relax.op.reverse_sequence(node.tensor(0), node.tensor(1), time, batch)


@converts("CumSum", "CumProd")
def cumulated(node: OnnxNode) -> Any:
    """Return cumulative sums or products along an axis, from its end if reversed."""
    axis, rank = int(node.array(1, "axis").reshape(-1)[0]), node.rank(0)
    if not -rank <= axis < rank:
        node.refuse(f"axis is {axis}, expected -{rank} to {rank - 1}")
    axis %= rank
    if any(isinstance(dim, int) and dim == 0 for dim in node.shape(0)):
        return node.value(0)  # TVM's code divides by the number of elements
    data, reverse = node.tensor(0), bool(node.attr("reverse", 0))
    data = node.emit(relax.op.flip(data, axis)) if reverse else data
    exclusive = bool(node.attr("exclusive", 0))
    cumulate = relax.op.cumsum if node.op == "CumSum" else relax.op.cumprod
    result = node.emit(cumulate(data, axis, exclusive=exclusive))
    return relax.op.flip(result, axis) if reverse else result
