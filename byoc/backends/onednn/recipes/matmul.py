"""Products of matrices, batched and broadcast; extents may be known only at run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .....analysis.composites.products import TRANSPOSED_MATMUL
from ....backend.region import Region, Tensor
from ....patterns.extents.symbolic_shapes import same_shape, spread
from ...common.fold_channels import Folded, fold, multiplied
from .post import follow
from .recipe import OperandView, Recipe
from .source import OneDnnFunction


def matmul(frame: OneDnnFunction) -> Recipe:
    """A batch times one matrix becomes a product of two matrices."""
    region, call = frame.region, frame.region.calls[0]
    first, second = call.operands
    swapped = call.attrs["transposed"] if call.op == TRANSPOSED_MATMUL else (False, False)
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    rank = len(region.result.shape)
    folded = _folded(region, second, swapped[1])
    frame.rounds += folded.rounds
    merge = rank > 2 and len(second.shape) == 2 and not swapped[0] and rows(region, folded)
    axes = 2 if merge else rank

    def turned(tensor: Tensor) -> OperandView:
        return frame.matrix(tensor, rank, merge)

    data, weights = turned(first), frame.of(second)
    if swapped[0]:
        data = data.permuted(_swap(rank))
    if swapped[1]:
        weights = weights.permuted(_swap(len(second.shape)))
    if folded.scale is not None:
        weights = frame.fixed(multiplied(region.constants[second.index], folded.scale))
    bias = None if folded.shift is None else frame.fixed(folded.shift).expanded(axes)
    recipe = Recipe("matmul").views(src=data, weights=weights.expanded(axes),
                                    dst=turned(region.result), bias=bias)  # fmt: skip
    return follow(recipe, folded.epilogue, turned)


def _swap(rank: int) -> list[int]:
    """The axes of a transposed operand."""
    return [*range(rank - 2), rank - 1, rank - 2]


def _folded(region: Region, weights: Tensor, transposed: bool) -> Folded:
    rank, count = len(region.result.shape), region.result.shape[-1]
    size = count if isinstance(count, int) else None
    scalable = weights.source == "constant" and not transposed  # factors are of the last axis
    folded = fold(region, rank - 1, size, scalable)
    if folded.shift is None:
        return folded
    shift = np.ascontiguousarray(np.broadcast_to(folded.shift, (count,)))
    return replace(folded, shift=shift)


def rows(region: Region, folded: Folded) -> bool:
    """Whether each operand of the epilogue is the same for all rows, or has the result's shape."""
    out = region.result.shape
    for call in folded.epilogue:
        for operand in call.operands:
            if not isinstance(operand, Tensor) or same_shape(operand.shape, out):
                continue
            if spread(operand.shape, out) not in ((), (len(out) - 1,)):
                return False
    return True
