"""Images sampled at positions that are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx.experimental.symbolic_shapes import statically_known_true
from tvm import relax

from ..nodes.arguments import Converter, arguments

#: The interpolations and paddings of torch, by number.
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _grid_sampler(importer: Any, node: Any) -> Any:
    """Convert grid_sample; torch's grid has its coordinates in the last axis, TVM's in the second.

    Raises:
        NotImplementedError: It reflects along an axis of one element, where TVM divides by 0.
    """
    args = arguments(importer, node)
    x, grid = args["input"], args["grid"]
    padding, aligned = _PADDINGS[args["padding_mode"]], args["align_corners"]
    extents = node.args[0].meta["val"].shape[2:]
    if padding == "reflection" and aligned and not _all_above_one(extents):
        raise NotImplementedError(
            f"it reflects at aligned corners of {tuple(map(str, extents))} elements, expected more "
            'than 1; use padding_mode="border", which is equal for 1'
        )
    emit, last = importer.block_builder.emit, grid.ty.ndim - 1
    if padding == "reflection":
        grid = _folded(emit, grid, x.ty.shape.values[2:], aligned)
    grid = emit(relax.op.permute_dims(grid, [0, last, *range(1, last)]))
    return emit(relax.op.image.grid_sample(
        x, grid, method=_METHODS[args["interpolation_mode"]],
        layout="NCHW" if last == 3 else "NCDHW", padding_mode=padding, align_corners=aligned
    ))  # fmt: skip


def _folded(emit: Any, grid: Any, extents: Sequence[Any], aligned: bool) -> Any:
    """Return positions that are reflected at most twice, as torch has them.

    TVM counts reflections in int32, which far positions exceed; infinite ones become NaN, as in
    torch. Beyond 2^24 pixels, where float32 has not all positions, torch's kernels differ, too.
    """
    ops, dtype = relax.op, str(grid.ty.dtype)
    sizes = emit(
        ops.shape_to_tensor(relax.ShapeExpr([e - int(aligned) for e in reversed(extents)]))
    )
    span = emit(ops.astype(sizes, dtype))
    one, two, three = (relax.const(value, dtype) for value in (1.0, 2.0, 3.0))
    moved = emit(ops.add(grid, one))
    if aligned:  # torch's order, as far positions overflow
        pixels = emit(ops.multiply(emit(ops.divide(moved, two)), span))
    else:
        pixels = emit(ops.divide(emit(ops.multiply(moved, span)), two))
    rest = emit(ops.mod(emit(ops.abs(pixels)), emit(ops.multiply(span, two))))
    folded = emit(ops.subtract(emit(ops.divide(emit(ops.multiply(rest, two)), span)), one))
    near = emit(ops.less_equal(emit(ops.abs(grid)), three))
    return emit(ops.where(near, grid, folded))


def _all_above_one(extents: Any) -> bool:
    return all(statically_known_true(extent > 1) for extent in extents)


CONVERTERS: Mapping[str, Converter] = {
    f"grid_sampler_{rank}d.default": _grid_sampler for rank in (2, 3)
}
