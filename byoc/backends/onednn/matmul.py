"""Products of matrices, batched and broadcast; extents may be known only at run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...backend.region import Region, Tensor
from ...patterns.symbolic_shapes import same_shape, spread
from ..common.fold_channels import Folded, fold
from .post import lines
from .source import OneDnnFunction


def matmul(frame: OneDnnFunction) -> list[str]:
    """A batch times one matrix becomes a product of two matrices."""
    region = frame.region
    first, second = region.calls[0].operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    rank = len(region.result.shape)
    folded = _folded(region, second)
    frame.rounds += folded.rounds
    merge = rank > 2 and len(second.shape) == 2 and rows(region, folded)

    def turned(tensor: Tensor) -> str:
        return frame.matrix(tensor, rank, merge)

    weights = frame.view(second)
    if folded.scale is not None:
        array = region.constants[second.index]
        scaled = (array.astype("float32") * folded.scale).astype(array.dtype)
        weights = frame.constant(scaled)
    body = [f"const View src = {turned(first)};",
            f"const View weights = {weights}.expanded({2 if merge else rank});",
            f"const View dst = {turned(region.result)};"]  # fmt: skip
    bias = "nullptr"
    if folded.shift is not None:
        shift = f"{frame.constant(folded.shift)}.expanded({2 if merge else rank})"
        body.append(f"const View bias = {shift};")
        bias = "&bias"
    body += ["Post post;", *lines(folded.epilogue, turned)]
    return [*body, f"return matmul(src, weights, {bias}, dst, post);"]


def _folded(region: Region, weights: Tensor) -> Folded:
    rank, count = len(region.result.shape), region.result.shape[-1]
    size = count if isinstance(count, int) else None
    folded = fold(region, rank - 1, size, weights.source == "constant")
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
