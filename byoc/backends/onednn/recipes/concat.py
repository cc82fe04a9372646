"""Concatenation of tensors along an axis."""

from __future__ import annotations

from ....backend.region import Tensor
from .post import follow
from .recipe import Recipe
from .source import OneDnnFunction


def concat(frame: OneDnnFunction) -> Recipe:
    """concat of tensors along one axis."""
    call = frame.region.calls[0]
    rank = len(call.result.shape)
    recipe = Recipe("concat").numbers([int(call.attrs["axis"]) % rank]).view("dst", frame.out)
    for operand in call.operands:
        if isinstance(operand, Tensor):
            recipe.view("part", frame.of(operand))
    return follow(recipe, frame.region.calls[1:], lambda t: frame.of(t).expanded(rank))
