"""Interpolation and padding by other elements, which torch decomposes into lookups.

Read whole, they stay one operator that backends take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from tvm import relax

from ..nodes.arguments import Converter, arguments
from . import pads
from .resampling import check_elements, resampled


def _resized(method: str) -> Converter:
    """Convert upsample_nearest2d, upsample_bilinear2d and upsample_bicubic2d."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x = args["input"]
        check_elements(x, method)
        if method == "nearest_neighbor":
            mode, rounding = "asymmetric", "floor"
        else:
            mode = "align_corners" if args["align_corners"] else "half_pixel"
            rounding = "round"
        size = importer._sizes(node)[2:]
        aligned, factors = mode == "align_corners", args["scale_factors"]
        if not (_aligns(node) if aligned else _exact(node, factors)):
            if _is_static(node):
                return _by_matrices(importer, node, x)
            return resampled(importer, x, size, factors, method.partition("_")[0], aligned)
        return importer.block_builder.emit(relax.op.image.resize2d(
            x, tuple(size), layout="NCHW", method=method, coordinate_transformation_mode=mode,
            rounding_method=rounding, cubic_alpha=-0.75))  # fmt: skip

    return convert


def _sampled(method: str) -> Converter:
    """Convert the interpolations that TVM's `resize2d` is not."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        return resampled(importer, args["input"], importer._sizes(node)[2:], args["scale_factors"],
                         method, bool(args.get("align_corners")))  # fmt: skip

    return convert


def _is_static(node: Any) -> bool:
    extents = (*node.args[0].meta["val"].shape[2:], *node.meta["val"].shape[2:])
    return all(isinstance(extent, int) for extent in extents)


def _aligns(node: Any) -> bool:
    """Return whether TVM aligns corners: it divides by zero if an extent of the result is 1.

    It computes no bounds of places whose scale is a quotient of symbolic sizes.
    """
    return all(isinstance(extent, int) and extent > 1 for extent in node.meta["val"].shape[2:])


def _exact(node: Any, factors: Any) -> bool:
    """Return whether the factors are the quotients of the sizes.

    torch computes positions with the factor that was given, TVM with the quotient. They differ
    where the size was rounded down.
    """
    if not factors:
        return True
    before, after = node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:]
    for old, new, factor in zip(before, after, factors, strict=True):
        static = isinstance(old, int) and isinstance(new, int)
        if not (float(factor).is_integer() or (static and old * factor == new)):
            return False
    return True


def _by_matrices(importer: Any, node: Any, x: Any) -> Any:
    """Resize by a matrix for each axis, which torch's operator computes from unit vectors."""
    before = node.args[0].meta["val"].shape[2:]
    if not _is_static(node):
        raise NotImplementedError("it smooths along a symbolic size; make the height and the width "
                                  "static, or give antialias=False")  # fmt: skip
    emit = importer.block_builder.emit
    rest = [a.meta["val"] if hasattr(a, "meta") else a for a in node.args[1:]]
    height, width = (_matrix(node, axis, before, rest) for axis in (0, 1))
    y = emit(relax.op.matmul(x, relax.const(width)))
    return emit(relax.op.matmul(relax.const(height.T.copy()), y))


def _matrix(node: Any, axis: int, before: Any, rest: list[Any]) -> Any:
    """Return the matrix (old, new) of one axis."""
    extent = before[axis]
    with torch.no_grad():
        unit = torch.eye(extent).reshape((1, extent, extent, 1) if axis == 0
                                         else (1, extent, 1, extent))  # fmt: skip
        full = unit.expand(1, extent, *((extent, before[1]) if axis == 0 else (before[0], extent)))
        out = node.target(full.contiguous(), *rest, **node.kwargs)[0]
    return (out[:, :, 0] if axis == 0 else out[:, 0, :]).numpy()


def _smoothed(importer: Any, node: Any) -> Any:
    """Convert antialiased interpolation, which TVM has not."""
    x = arguments(importer, node)["self"]
    check_elements(x, "linear")
    return _by_matrices(importer, node, x)


#: Interpolations that torch decomposes into lookups, which need static sizes.
SAMPLED: Mapping[str, Converter] = {
    **{f"upsample_nearest{rank}d.vec": _sampled("nearest") for rank in (1, 3)},
    **{f"_upsample_nearest_exact{rank}d.vec": _sampled("nearest_exact") for rank in (1, 2, 3)},
    "upsample_linear1d.vec": _sampled("linear"),
    "upsample_trilinear3d.vec": _sampled("linear"),
}
CONVERTERS: Mapping[str, Converter] = {
    **SAMPLED,
    "upsample_nearest2d.vec": _resized("nearest_neighbor"),
    "upsample_bilinear2d.vec": _resized("linear"),
    "upsample_bicubic2d.vec": _resized("cubic"),
    "_upsample_bilinear2d_aa.default": _smoothed,
    "_upsample_bicubic2d_aa.default": _smoothed,
    **pads.WHOLE,
}


def is_whole(name: str) -> Callable[[Any], bool]:
    """Return which nodes of an operator are read whole."""
    return (lambda node: not _is_static(node)) if name in SAMPLED else (lambda node: True)
