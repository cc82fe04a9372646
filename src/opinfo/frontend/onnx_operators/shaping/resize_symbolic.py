"""Resize an axis of symbolic size: coordinates are computed at run time, by Relax operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim


@dataclass(frozen=True)
class Resizing:
    """What a node asks for: the method, the coordinates, and each axis's size and scale."""

    mode: str
    transform: str
    rounding: str
    sizes: list[Dim]
    scales: list[Any]  # numbers; None where the size was given


def along(node: OnnxNode, data: Any, axis: int, extent: Dim, size: Dim, what: Resizing) -> Any:
    """Return the data with one axis resized, by nearest elements or linearly between two.

    Args:
        node: The node for which it is.
        data: The tensor.
        axis: The axis.
        extent: Its size.
        size: Its size afterwards.
        what: What the node asks for.
    """
    places = node.emit(_coordinates(node, extent, size, what, what.scales[axis]))
    last = _number(node, node.arithmetic.add(extent, -1))
    if what.mode == "nearest":
        half = relax.const(0.5, "float32")
        rounded = {
            "round_prefer_floor": lambda: relax.op.ceil(relax.op.subtract(places, half)),
            "round_prefer_ceil": lambda: relax.op.floor(relax.op.add(places, half)),
            "floor": lambda: relax.op.floor(places),
            "ceil": lambda: relax.op.ceil(places),
        }[what.rounding]()
        return node.emit(relax.op.take(data, _indices(node, rounded, last), axis))
    if what.mode != "linear":
        node.refuse(f"mode '{what.mode}' with these scales or coordinates of a symbolic size",
                    extent, size)  # fmt: skip
    places = node.emit(relax.op.minimum(relax.op.maximum(places, _number(node, 0)), last))
    low = node.emit(relax.op.floor(places))
    share = relax.op.subtract(places, low)
    around = [1] * data.ty.ndim
    around[axis] = size
    share = node.emit(relax.op.reshape(share, around))
    dtype = str(data.ty.dtype)
    share = share if dtype == "float32" else relax.op.astype(share, dtype)
    high = relax.op.add(low, _number(node, 1))
    first = node.emit(relax.op.take(data, _indices(node, low, last), axis))
    second = node.emit(relax.op.take(data, _indices(node, high, last), axis))
    step = relax.op.multiply(relax.op.subtract(second, first), share)
    return node.emit(relax.op.add(first, step))


def _indices(node: OnnxNode, places: Any, last: Any) -> Any:
    inside = relax.op.minimum(relax.op.maximum(places, _number(node, 0)), last)
    return node.emit(relax.op.astype(inside, "int64"))


def _number(node: OnnxNode, dim: Dim) -> Any:
    """Return a size as a float32 scalar."""
    if not is_expr(dim):
        return relax.const(float(dim), "float32")
    return node.emit(relax.op.reshape(node.shape_tensor([dim], "float32"), ()))


def _coordinates(node: OnnxNode, extent: Dim, size: Dim, what: Resizing, scale: Any) -> Any:
    """Return for each element of the result its place in the data."""
    x = node.emit(relax.op.astype(relax.op.arange(0, size, 1, "int64"), "float32"))
    if what.transform == "align_corners":
        top = _number(node, node.arithmetic.add(extent, -1))
        steps = relax.op.maximum(_number(node, node.arithmetic.add(size, -1)), _number(node, 1))
        return relax.op.divide(relax.op.multiply(x, top), steps)
    factor = (
        relax.const(float(scale), "float32")
        if scale is not None
        else node.emit(relax.op.divide(_number(node, size), _number(node, extent)))
    )
    if what.transform == "asymmetric":
        return relax.op.divide(x, factor)
    if what.transform == "half_pixel":
        half = relax.const(0.5, "float32")
        return relax.op.subtract(relax.op.divide(relax.op.add(x, half), factor), half)
    node.refuse(f"coordinates '{what.transform}' of a symbolic size", extent, size)
