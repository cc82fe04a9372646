"""Resize an axis of static size: nearest elements are taken, others are a product with a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from ...formulas.interpolation import neighbours, of_arrays
from ...onnx_graph.onnx_node import OnnxNode
from .resize_request import Resizing

Array = np.ndarray[Any, Any]
ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def along(node: OnnxNode, data: Any, axis: int, extent: int, size: int, what: Resizing) -> Any:
    """Return the data with one axis resized.

    Args:
        node: The node for which it is.
        data: The tensor.
        axis: The axis.
        extent: Its size.
        size: Its size afterwards.
        what: What the node asks for.
    """
    region = None if what.region is None else what.region[axis]
    places = _coordinates(node, what, extent, size, what.scales[axis], region)
    if what.mode == "nearest":
        indices = np.clip(ROUNDINGS[what.rounding](places), 0, extent - 1).astype("int64")
        result = node.emit(relax.op.take(data, relax.const(indices, "int64"), axis))
    else:
        scale = size / extent if what.scales[axis] is None else what.scales[axis]
        result = _product(node, data, axis, _weights(what, places, extent, scale))
    outside = (places < 0) | (places > extent - 1)
    if region is None or not outside.any():
        return result
    around = [1] * result.ty.ndim
    around[axis] = size
    mask = relax.const(outside.reshape(around), "bool")
    value = relax.const(what.outside, str(data.ty.dtype))
    return node.emit(relax.op.where(mask, value, result))


def _weights(what: Resizing, places: Array, extent: int, scale: float) -> Array:
    """Return the matrix (extent, size) from elements to those of the result.

    Elements outside of the data are equal to those at its ends, or have no weight.
    """
    stretch = min(scale, 1.0) if what.antialias else 1.0
    low, offsets = np.floor(places), neighbours(what.mode, stretch)[:, None]
    distances = np.abs(offsets - (places - low)) * stretch
    weights = of_arrays(what.mode, distances, what.alpha)
    indices = low.astype("int64") + offsets
    if what.excludes:
        weights = np.where((indices >= 0) & (indices < extent), weights, 0)
    if what.excludes or what.antialias:
        total = weights.sum(0)
        weights = weights / np.where(total == 0, 1, total)
    matrix = np.zeros((extent, len(places)), "float64")
    columns = np.broadcast_to(np.arange(len(places)), indices.shape)
    np.add.at(matrix, (np.clip(indices, 0, extent - 1), columns), weights)
    return matrix


def _product(node: OnnxNode, data: Any, axis: int, matrix: Array) -> Any:
    """Return the product of an axis with a matrix (extent, size)."""
    order = [k for k in range(data.ty.ndim) if k != axis] + [axis]
    dtype = str(data.ty.dtype)
    moved = node.emit(relax.op.permute_dims(data, order))
    product = node.emit(relax.op.matmul(moved, relax.const(matrix.astype(dtype), dtype)))
    return node.emit(relax.op.permute_dims(product, list(np.argsort(order).tolist())))


def _coordinates(
    node: OnnxNode, what: Resizing, extent: int, size: int, scale: Any, region: Any
) -> Array:
    """Return for each element of the result its place in the data, in float32 as ONNX Runtime."""
    one, half = np.float32(1), np.float32(0.5)
    factor = np.float32(size / extent) if scale is None else np.float32(scale)
    x, last = np.arange(size, dtype="float32"), np.float32(extent - 1)
    if what.transform == "asymmetric":
        return x / factor
    if what.transform == "align_corners":
        return x * last / np.float32(max(size - 1, 1))
    if what.transform == "tf_half_pixel_for_nn":
        return (x + half) / factor
    if what.transform == "pytorch_half_pixel" and size == 1:
        return np.zeros(1, "float32")
    if what.transform in ("half_pixel", "pytorch_half_pixel"):
        return (x + half) / factor - half
    if what.transform == "half_pixel_symmetric":
        adjusted = np.float32(size) / (factor * np.float32(extent))
        return np.float32(extent) / 2 * (one - adjusted) + (x + half) / factor - half
    if region is not None:
        start, end = (np.float32(bound) for bound in region)
        if size == 1:
            return np.array([half * (start + end) * last])
        return start * last + x * (end - start) * last / np.float32(size - 1)
    node.refuse(f"coordinate_transformation_mode '{what.transform}' has no lowering")
