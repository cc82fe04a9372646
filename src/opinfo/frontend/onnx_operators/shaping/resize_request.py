"""What a Resize asks for, read from its attributes and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import Rational, Unknown, is_expr, rational
from ...onnx_graph.values import Dim


@dataclass(frozen=True)
class Resizing:
    """The method, the coordinates, and each axis's size and scale.

    Attributes:
        mode: nearest, linear or cubic.
        transform: The coordinate transformation.
        rounding: How nearest elements are chosen.
        sizes: The sizes of the result.
        scales: Numbers, or scalars of Relax; None where the scale is the ratio of the sizes.
        alpha: The coefficient of cubic convolution.
        antialias: Whether the kernel is stretched by a scale below 1.
        excludes: Whether elements outside of the data have no weight.
        region: Of each axis the normalised start and end, numbers or scalars of Relax; None unless
            the coordinates are those of a region.
        outside: The value of places outside of the data, for coordinates of a region.
    """

    mode: str
    transform: str
    rounding: str
    sizes: list[Dim]
    scales: list[Any]
    alpha: float = -0.75
    antialias: bool = False
    excludes: bool = False
    region: Sequence[tuple[Any, Any]] | None = None
    outside: float = 0.0


def axes_of(node: OnnxNode) -> list[int]:
    """Return the axes that sizes, scales and the region are for."""
    rank = node.rank(0)
    given = [int(axis) for axis in node.attr("axes") or range(rank)]
    axes = [axis % rank for axis in given]
    if any(not -rank <= axis < rank for axis in given) or len(set(axes)) != len(axes):
        node.refuse(f"axes are {given}, expected different ones from {-rank} to {rank - 1}")
    return axes


def axes_given(node: OnnxNode, scales: int, sizes: int) -> tuple[list[Any], list[Dim] | None]:
    """Return the scales of all axes, and the sizes of the result if they are given."""
    rank, axes = node.rank(0), axes_of(node)
    by_sizes = node.has(sizes) and node.shape(sizes) != [0]
    values = node.integers(sizes, "sizes") if by_sizes else numbers(node, scales)
    if len(values) != len(axes):
        node.refuse(f"it has {len(values)} sizes or scales for {len(axes)} axes")
    if not by_sizes:
        factors = [1.0] * rank
        for axis, value in zip(axes, values, strict=True):
            factors[axis] = value
        return factors, None
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    result, none = node.shape(0), [None] * rank
    if policy != "stretch":
        return _of_one_scale(node, axes, values, policy == "not_larger")
    for axis, value in zip(axes, values, strict=True):
        result[axis] = value
    return list(none), result


def numbers(node: OnnxNode, k: int) -> list[Any]:
    """Return the scales that input `k` holds."""
    value = node.value(k)
    if value.elements is None:
        node.refuse_data("the list of scales", value, "a constant or a function of sizes")
    items = value.elements.reshape(-1).tolist()
    if any((isinstance(x, Rational) and is_expr(x.top)) or is_expr(x) for x in items):
        node.refuse("the scales depend on symbolic dimensions", *items)
    return [float(x) for x in items]


def _of_one_scale(
    node: OnnxNode, axes: list[int], values: list[Dim], smallest: bool
) -> tuple[list[Any], list[Dim]]:
    """Return the scale that the axes share, and the sizes that it gives, halves rounded up.

    A size is the least (or greatest) of those that the ratio of each axis gives, since rounding
    keeps order; so the sizes are exact where they are symbolic.
    """
    own, arithmetic = node.shape(0), node.arithmetic
    choose = arithmetic.minimum if smallest else arithmetic.maximum
    result, scales = node.shape(0), [1.0] * len(own)
    scale = _ratio(node, [own[axis] for axis in axes], values, smallest)
    for axis in axes:
        scales[axis] = scale
        rounded = []
        for other, value in zip(axes, values, strict=True):
            extent = arithmetic.maximum(own[other], 1)  # code must not divide by 0
            double = arithmetic.multiply(arithmetic.multiply(value, own[axis]), 2)
            rounded.append(arithmetic.floor_divide(arithmetic.add(double, extent),
                                                   arithmetic.multiply(extent, 2)))  # fmt: skip
        result[axis] = rounded[0]
        for size in rounded[1:]:
            result[axis] = choose(result[axis], size)
    return scales, result


def _ratio(node: OnnxNode, extents: list[Dim], values: list[Dim], smallest: bool) -> Any:
    """Return the least or greatest ratio of sizes, a number or a scalar of Relax."""
    pairs = list(zip(values, extents, strict=True))
    if not any(is_expr(d) for pair in pairs for d in pair):
        ratios = [value / max(extent, 1) for value, extent in pairs]
        return min(ratios) if smallest else max(ratios)
    combine = relax.op.minimum if smallest else relax.op.maximum
    parts = [relax.op.divide(number(node, a), number(node, b)) for a, b in pairs]
    whole = node.emit(parts[0])
    for part in parts[1:]:
        whole = node.emit(combine(whole, part))
    return whole


def region_of(node: OnnxNode, k: int) -> list[tuple[Any, Any]]:
    """Return the start and the end of each axis, which input `k` holds."""
    rank, axes = node.rank(0), axes_of(node)
    if not node.has(k) or node.shape(k) != [2 * len(axes)]:
        node.refuse(
            f"tf_crop_and_resize without a region, expected a roi of {2 * len(axes)} numbers"
        )
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        given: list[Any] = [float(x) for x in value.elements]
    else:
        data = node.emit(relax.op.astype(node.tensor(k), "float32"))
        given = [
            node.emit(relax.op.reshape(
                node.emit(relax.op.strided_slice(data, [0], [j], [j + 1], [1])), ()))
            for j in range(2 * len(axes))
        ]  # fmt: skip
    result: list[tuple[Any, Any]] = [(0.0, 1.0)] * rank
    for j, axis in enumerate(axes):
        result[axis] = given[j], given[len(axes) + j]
    return result


def scaled(node: OnnxNode, dim: Dim, scale: float) -> Dim:
    """Return floor(size * scale), as ONNX computes it in float32."""
    if not is_expr(dim):
        return int(np.floor(np.float32(dim) * np.float32(scale)))
    try:
        factor = rational(scale)
    except Unknown:
        node.refuse(f"a scale of {scale:g} of a symbolic size, expected a multiple of 1/1024", dim)
    return node.arithmetic.floor(node.arithmetic.multiply(factor, dim)).top


def is_exact(node: OnnxNode, dim: Dim, scale: Any, result: Dim) -> bool:
    """Return whether a scale is the ratio of the sizes."""
    if scale is None:
        return True
    if not isinstance(scale, float):
        return False
    if not is_expr(dim) and not is_expr(result):
        return bool(np.float64(np.float32(scale)) * dim == result)
    try:
        product = node.arithmetic.multiply(rational(scale), dim)
    except Unknown:
        return False
    return bool(product.bottom == 1 and node.arithmetic.equal(product.top, result))


def number(node: OnnxNode, dim: Dim) -> Any:
    """Return a size as a float32 scalar."""
    if not is_expr(dim):
        return relax.const(float(dim), "float32")
    return node.emit(relax.op.reshape(node.shape_tensor([dim], "float32"), ()))
