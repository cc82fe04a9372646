"""Resize and Upsample, to sizes that may be symbolic.

TVM's operators take the ratio of the sizes for the scale. Where a given scale is another number,
because the output's size is rounded, and for what TVM's operators do not have, the axes are resized
one by one: by indices or a matrix if sizes are static, else by coordinates that are computed at
run time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, topi

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim
from . import resize_static as static
from . import resize_symbolic as symbolic
from .resize_request import Resizing, axes_given, is_exact, numbers, region_of, scaled

METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
#: Coordinate transformations that TVM knows.
TRANSFORMS = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
#: Those that depend on the size before it is rounded, by ONNX, or on the rounded one, by others.
AMBIGUOUS = ("align_corners", "tf_crop_and_resize")


@converts("Resize")
def resize(node: OnnxNode) -> Any:
    """Resize some axes."""
    old = node.opset < 11
    transform = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    scales, sizes = axes_given(node, 1 if old else 2, 3)
    down = any(isinstance(s, float) and s < 1 for s in scales)
    rounding = node.text("nearest_mode", "round_prefer_floor")
    region = region_of(node, 1) if transform == "tf_crop_and_resize" else None
    if old:
        rounding = "ceil" if down else "floor"
    what = Resizing(
        _mode(node), transform, rounding, [], scales, float(node.attr("cubic_coeff_a", -0.75)),
        bool(node.attr("antialias", 0)), bool(node.attr("exclude_outside", 0)), region,
        float(node.attr("extrapolation_value", 0.0)),
    )  # fmt: skip
    if what.antialias and what.mode == "nearest":
        node.refuse("antialias of nearest elements, expected mode linear or cubic")
    return _resized(node, what, sizes)


@converts("Upsample")
def upsample(node: OnnxNode) -> Any:
    """Resize by scales, as Resize did before operator set 11."""
    scales = numbers(node, 1) if node.has(1) else list(node.attr("scales"))
    return _resized(node, Resizing(_mode(node), "asymmetric", "floor", [], scales), None)


def _mode(node: OnnxNode) -> str:
    mode = node.text("mode", "nearest")
    mode = "linear" if mode in ("bilinear", "trilinear") else mode
    if mode not in METHODS:
        node.refuse(f"mode is '{mode}', expected one of {', '.join(METHODS)}")
    return mode


def _resized(node: OnnxNode, what: Resizing, sizes: list[Dim] | None) -> Any:
    own = node.shape(0)
    if sizes is None:
        sizes = [scaled(node, d, s) for d, s in zip(own, what.scales, strict=True)]
    exact = [is_exact(node, d, s, t) for d, s, t in zip(own, what.scales, sizes, strict=True)]
    what = replace(what, sizes=sizes)
    if any(isinstance(d, int) and d < 1 and own[k] != d for k, d in enumerate(sizes)):
        node.refuse(f"its result would have sizes {sizes}, expected sizes from 1")
    if what.rounding not in static.ROUNDINGS:
        expected = ", ".join(static.ROUNDINGS)
        node.refuse(f"nearest_mode is '{what.rounding}', expected one of {expected}")
    if not all(exact) and what.transform in AMBIGUOUS:
        node.refuse(f"{what.transform} with a scale whose result is rounded, expected sizes", *own)
    changed = [
        k
        for k, (a, b) in enumerate(zip(own, sizes, strict=True))
        if not exact[k] or not node.arithmetic.equal(a, b) or _is_cropped(what, k)
    ]
    if not changed:
        return node.value(0)
    smooth = what.mode == "cubic" or what.antialias
    wraps = smooth and "float" not in node.dtype(0)  # TVM's cubic exceeds the range of integers
    if all(exact) and not wraps and _is_of_tvm(what, own, changed):
        return _by_tvm(node, what)
    return _by_axes(node, what, changed)


def _is_cropped(what: Resizing, axis: int) -> bool:
    if what.region is None:
        return False
    start, end = what.region[axis]
    return is_expr(start) or is_expr(end) or (start, end) != (0.0, 1.0)


def _is_of_tvm(what: Resizing, own: list[Dim], changed: list[int]) -> bool:
    """Return whether TVM's operators have a resizing by the ratio of sizes."""
    if what.antialias or what.excludes:
        return False
    fixed = not any(is_expr(d) for d in [*own, *what.sizes])
    # TVM's linear method fails on symbolic sizes in other coordinates.
    known = TRANSFORMS if fixed or what.mode != "linear" else ("half_pixel",)
    # TVM divides the distance of corners by that of the result's, which is 0 for one element.
    corners = what.transform != "align_corners" or all(not _is_one(d) for d in what.sizes[2:])
    return corners and min(changed) >= 2 and len(own) in (3, 4, 5) and what.transform in known


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _by_tvm(node: OnnxNode, what: Resizing) -> Any:
    data, sizes, rank = node.tensor(0), what.sizes[2:], len(what.sizes) - 2
    method = METHODS[what.mode]
    if rank == 1:
        return node.builder.emit_te(
            topi.image.resize1d, data, [0.0, 0.0], sizes, "NCW", method, what.transform,
            what.rounding, what.alpha, 0, what.outside,
        )  # fmt: skip
    op = relax.op.image.resize2d if rank == 2 else relax.op.image.resize3d
    return op(data, relax.ShapeExpr(sizes), [0.0] * (2 * rank), "NCHW" if rank == 2 else "NCDHW",
              method, what.transform, what.rounding, what.alpha, 0, what.outside)  # fmt: skip


def _by_axes(node: OnnxNode, what: Resizing, changed: list[int]) -> Any:
    """Resize axis by axis; integers as real numbers."""
    result, dtype, own = node.tensor(0), node.dtype(0), node.shape(0)
    between = what.mode != "nearest" and "float" not in dtype  # weights of integers would be 0 or 1
    if between:
        result = node.emit(relax.op.astype(result, "float32"))
    for axis in changed:
        values = [own[axis], what.sizes[axis], what.scales[axis],
                  *(what.region[axis] if what.region else ())]  # fmt: skip
        fixed = not any(is_expr(value) for value in values)
        along = static.along if fixed else symbolic.along
        result = along(node, result, axis, own[axis], what.sizes[axis], what)
    return _as_integers(node, result, what, dtype) if between else result


def _as_integers(node: OnnxNode, result: Any, what: Resizing, dtype: str) -> Any:
    """Return integers: of a linear mode without fractions, as ONNX Runtime; else the nearest."""
    if what.mode == "cubic" or what.antialias:
        limits = np.iinfo(dtype)
        top = np.float32(limits.max)
        top = np.nextafter(top, np.float32(0)) if int(top) > limits.max else top
        result = node.emit(relax.op.round(result))
        result = node.emit(relax.op.clip(result, float(limits.min), float(top)))
    return relax.op.astype(result, dtype)
