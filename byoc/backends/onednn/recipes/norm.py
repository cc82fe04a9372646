"""Softmax along an axis; normalisation of layers, and by roots of means, along the last one."""

from __future__ import annotations

from ....backend.region import Tensor
from .post import follow
from .recipe import Recipe
from .source import OneDnnFunction

#: The most axes of oneDNN's layer normalisation. With more, those before the last one are merged.
MOST_AXES = 5


def softmax(frame: OneDnnFunction) -> Recipe:
    """softmax and log_softmax along one axis."""
    call = frame.region.calls[0]
    (source,) = call.operands
    assert isinstance(source, Tensor)
    rank = len(source.shape)
    how = "log" if call.op.endswith("log_softmax") else "accurate"
    recipe = Recipe("softmax").views(src=frame.of(source), dst=frame.out)
    recipe.algorithm(f"softmax_{how}").numbers([int(call.attrs["axis"]) % rank])
    return _follow(frame, recipe, rank)


def layer_norm(frame: OneDnnFunction) -> Recipe:
    """layer_norm, with its factors and shifts where it has them."""
    call = frame.region.calls[0]
    source, *params = call.operands
    assert isinstance(source, Tensor)
    src, dst = frame.of(source), frame.out
    if len(source.shape) > MOST_AXES and len(frame.region.calls) == 1:
        src, dst = src.merged(), dst.merged()
    recipe = Recipe("layer_norm").views(src=src, dst=dst)
    names = [n for n, a in (("factor", "scale"), ("shift", "center")) if call.attrs.get(a, True)]
    for name, operand in zip(names, params, strict=False):
        assert isinstance(operand, Tensor)
        recipe.view(name, frame.of(operand))
    recipe.parameters(float(call.attrs["epsilon"]))
    return _follow(frame, recipe, len(source.shape))


def rms_norm(frame: OneDnnFunction) -> Recipe:
    """rms_norm with its factors."""
    call = frame.region.calls[0]
    source, factor = call.operands
    assert isinstance(source, Tensor) and isinstance(factor, Tensor)
    recipe = Recipe("rms_norm").views(src=frame.of(source), factor=frame.of(factor), dst=frame.out)
    recipe.parameters(float(call.attrs["epsilon"]))
    return _follow(frame, recipe, len(source.shape))


def _follow(frame: OneDnnFunction, recipe: Recipe, rank: int) -> Recipe:
    return follow(recipe, frame.region.calls[1:], lambda t: frame.of(t).expanded(rank))
