"""Resize and Upsample, to sizes that may be symbolic.

TVM's operators take the ratio of the sizes for the scale. Where a given scale is another number,
because the output's size is rounded, the axes are resized one by one: by indices or a matrix if
sizes are static, else by coordinates that are computed at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, topi

from ...onnx_graph.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import Rational, Unknown, is_expr, rational
from ...onnx_graph.values import Dim
from . import resize_symbolic as symbolic
from .resize_symbolic import Resizing

METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
#: Coordinate transformations that TVM knows.
TRANSFORMS = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


@converts("Resize")
def resize(node: OnnxNode) -> Any:
    """Resize some axes."""
    for name, default in (("antialias", 0), ("exclude_outside", 0)):
        if node.attr(name, default):
            node.refuse(f"{name} has no lowering")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        node.refuse("keep_aspect_ratio_policy has no lowering")
    old = node.opset < 11
    transform = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    scales, sizes = _axes_given(node, 1 if old else 2, 3)
    down = any(isinstance(s, float) and s < 1 for s in scales or [])
    rounding = node.text("nearest_mode", "round_prefer_floor")
    return _resized(
        node, transform, ("ceil" if down else "floor") if old else rounding, scales, sizes
    )


@converts("Upsample")
def upsample(node: OnnxNode) -> Any:
    """Resize by scales, as Resize did before operator set 11."""
    scales = _numbers(node, 1) if node.has(1) else list(node.attr("scales"))
    return _resized(node, "asymmetric", "floor", scales, None)


def _axes_given(
    node: OnnxNode, scales: int, sizes: int
) -> tuple[list[Any] | None, list[Dim] | None]:
    """Return the scales or the sizes of all axes."""
    rank = node.rank(0)
    axes = [int(axis) % rank for axis in node.attr("axes") or range(rank)]
    by_sizes = node.has(sizes) and node.shape(sizes) != [0]
    values = node.integers(sizes, "sizes") if by_sizes else _numbers(node, scales)
    if len(values) != len(axes):
        node.refuse(f"it has {len(values)} sizes or scales for {len(axes)} axes")
    result: list[Any] = node.shape(0) if by_sizes else [1.0] * rank
    for axis, value in zip(axes, values, strict=True):
        result[axis] = value
    return (None, result) if by_sizes else (result, None)


def _numbers(node: OnnxNode, k: int) -> list[Any]:
    value = node.value(k)
    if value.elements is None:
        node.refuse("the scales are computed at run time from data")
    items = value.elements.reshape(-1).tolist()
    if any((isinstance(x, Rational) and is_expr(x.top)) or is_expr(x) for x in items):
        node.refuse("the scales depend on symbolic dimensions", *items)
    return [float(x) for x in items]


def _resized(
    node: OnnxNode, transform: str, rounding: str, scales: list[Any] | None, sizes: list[Dim] | None
) -> Any:
    mode, own = node.text("mode", "nearest"), node.shape(0)
    mode = "linear" if mode in ("bilinear", "trilinear") else mode
    if mode not in METHODS:
        node.refuse(f"mode is '{mode}', expected one of {', '.join(METHODS)}")
    if sizes is None:
        assert scales is not None
        sizes = [_scaled(node, d, s) for d, s in zip(own, scales, strict=True)]
        exact = all(_is_exact(node, d, s, t) for d, s, t in zip(own, scales, sizes, strict=True))
    else:
        exact = True
    if any(isinstance(d, int) and d < 1 and own[k] != d for k, d in enumerate(sizes)):
        node.refuse(f"its result would have sizes {sizes}, expected sizes from 1")
    if rounding not in ROUNDINGS:
        node.refuse(f"nearest_mode is '{rounding}', expected one of {', '.join(ROUNDINGS)}")
    if not exact and transform == "align_corners":  # by ONNX of the product, by others of its floor
        node.refuse("align_corners with a scale whose result is rounded, expected sizes", *own)
    what = Resizing(mode, transform, rounding, sizes, scales or [None] * len(own))
    changed = [k for k, (a, b) in enumerate(zip(own, sizes, strict=True))
               if not node.arithmetic.equal(a, b)]  # fmt: skip
    if not changed:
        return node.value(0)
    fixed = not any(is_expr(d) for d in [*own, *sizes])
    # TVM's linear method fails on symbolic sizes in other coordinates.
    known = TRANSFORMS if fixed or mode != "linear" else ("half_pixel",)
    # TVM divides the distance of corners by that of the result's, which is 0 for one element.
    corners = transform != "align_corners" or all(not _is_one(d) for d in sizes[2:])
    if exact and corners and min(changed) >= 2 and len(own) in (3, 4, 5) and transform in known:
        return _by_tvm(node, what)
    result, dtype = node.tensor(0), node.dtype(0)
    between = mode != "nearest" and "float" not in dtype  # weights of integers would be 0 or 1
    if between:
        result = node.emit(relax.op.astype(result, "float32"))
    for axis in changed:
        result = _along(node, result, axis, own[axis], what)
    return relax.op.astype(result, dtype) if between else result


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _scaled(node: OnnxNode, dim: Dim, scale: float) -> Dim:
    """Return floor(size * scale), as ONNX computes it in float32."""
    if not is_expr(dim):
        return int(np.floor(np.float32(dim) * np.float32(scale)))
    try:
        factor = rational(scale)
    except Unknown:
        node.refuse(f"a scale of {scale:g} of a symbolic size, expected a multiple of 1/1024", dim)
    return node.arithmetic.floor(node.arithmetic.multiply(factor, dim)).top


def _is_exact(node: OnnxNode, dim: Dim, scale: float, result: Dim) -> bool:
    if not is_expr(dim):
        return bool(np.float64(np.float32(scale)) * dim == result)
    product = node.arithmetic.multiply(rational(scale), dim)
    return bool(product.bottom == 1)


def _by_tvm(node: OnnxNode, what: Resizing) -> Any:
    data, sizes, rank = node.tensor(0), what.sizes[2:], len(what.sizes) - 2
    method, cubic = METHODS[what.mode], float(node.attr("cubic_coeff_a", -0.75))
    outside = float(node.attr("extrapolation_value", 0.0))
    if rank == 1:
        return node.builder.emit_te(
            topi.image.resize1d, data, [0.0, 0.0], sizes, "NCW", method, what.transform,
            what.rounding, cubic, 0, outside,
        )  # fmt: skip
    op = relax.op.image.resize2d if rank == 2 else relax.op.image.resize3d
    return op(data, relax.ShapeExpr(sizes), [0.0] * (2 * rank), "NCHW" if rank == 2 else "NCDHW",
              method, what.transform, what.rounding, cubic, 0, outside)  # fmt: skip


def _along(node: OnnxNode, data: Any, axis: int, extent: Dim, what: Resizing) -> Any:
    """Resize one axis by indices, or by a matrix of weights."""
    size = what.sizes[axis]
    if is_expr(extent) or is_expr(size):
        return symbolic.along(node, data, axis, extent, size, what)
    places = _coordinates(node, what, extent, size, what.scales[axis])
    if what.mode == "nearest":
        indices = np.clip(ROUNDINGS[what.rounding](places), 0, extent - 1).astype("int64")
        return node.emit(relax.op.take(data, relax.const(indices, "int64"), axis))
    if what.mode != "linear":
        node.refuse(f"mode '{what.mode}' with a scale whose result is rounded")
    places = np.clip(places, 0, extent - 1)
    low = np.floor(places).astype(int)
    high, share = np.minimum(low + 1, extent - 1), places - low
    weights = np.zeros((extent, size), "float32")
    np.add.at(weights, (low, np.arange(size)), 1 - share)
    np.add.at(weights, (high, np.arange(size)), share)
    order = [k for k in range(data.ty.ndim) if k != axis] + [axis]
    dtype = str(data.ty.dtype)
    moved = node.emit(relax.op.permute_dims(data, order))
    product = node.emit(relax.op.matmul(moved, relax.const(weights.astype(dtype), dtype)))
    return node.emit(relax.op.permute_dims(product, list(np.argsort(order).tolist())))


def _coordinates(node: OnnxNode, what: Resizing, extent: int, size: int, scale: Any) -> Any:
    """Return for each element of the result its place in the data, in float32 as ONNX Runtime."""
    one, half = np.float32(1), np.float32(0.5)
    factor = np.float32(size / extent) if scale is None else np.float32(scale)
    x = np.arange(size, dtype="float32")
    if what.transform == "asymmetric":
        return x / factor
    if what.transform == "align_corners":
        return x * np.float32(extent - 1) / np.float32(max(size - 1, 1))
    if what.transform == "pytorch_half_pixel" and size == 1:
        return np.zeros(1, "float32")
    if what.transform in ("half_pixel", "pytorch_half_pixel"):
        return (x + half) / factor - half
    if what.transform == "half_pixel_symmetric":
        adjusted = np.float32(size) / (factor * np.float32(extent))
        return np.float32(extent) / 2 * (one - adjusted) + (x + half) / factor - half
    node.refuse(f"coordinate_transformation_mode '{what.transform}' has no lowering")
