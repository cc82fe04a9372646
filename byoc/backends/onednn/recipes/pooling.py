"""Pooling: windows of a fixed size, windows as large as the image, and means."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ....backend.region import Call, Tensor
from .post import follow
from .recipe import OperandView, Recipe
from .source import OneDnnFunction, order

POOL = tuple(f"relax.nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3))
GLOBAL = tuple(f"relax.nn.adaptive_avg_pool{n}d" for n in (1, 2, 3))


def pooling(frame: OneDnnFunction) -> Recipe:
    """max_pool, avg_pool and adaptive_avg_pool to a single element."""
    call = frame.region.calls[0]
    data = str(call.attrs["layout"])
    out = str(call.attrs["out_layout"]) or data
    axes = "NC" + "".join(c for c in "DHW" if c in data)
    (source,) = call.operands
    assert isinstance(source, Tensor)

    def turned(tensor: Tensor) -> OperandView:
        return frame.of(tensor).expanded(len(out)).permuted(order(out, axes))

    extents = [source.shape[data.index(c)] for c in axes[2:]]
    sizes = _sizes(call, extents, [call.result.shape[out.index(c)] for c in axes[2:]])
    recipe = Recipe("pooling").views(src=frame.of(source).permuted(order(data, axes)),
                                     dst=frame.out.permuted(order(out, axes)))  # fmt: skip
    recipe.algorithm(f"pooling_{_how(call)}").numbers(chain.from_iterable(sizes))
    return follow(recipe, frame.region.calls[1:], turned)


def mean(frame: OneDnnFunction) -> Recipe:
    """A mean over all but two axes: average pooling with these two as batch and channels."""
    call = frame.region.calls[0]
    (source,) = call.operands
    assert isinstance(source, Tensor)
    rank = len(source.shape)
    over = sorted(int(a) % rank for a in call.attrs["axis"])
    axes = [a for a in range(rank) if a not in over] + over
    out_rank = 2 + len(over) * bool(call.attrs["keepdims"])

    def turned(tensor: Tensor) -> OperandView:
        kept = frame.of(tensor).expanded(out_rank)
        return kept.permuted(axes) if out_rank > 2 else kept.trailing(rank)

    n = len(over)
    recipe = Recipe("pooling").views(src=frame.of(source).permuted(axes),
                                     dst=turned(frame.region.result))  # fmt: skip
    recipe.algorithm("pooling_avg_exclude_padding")
    recipe.numbers([*[1] * n, *(source.shape[a] for a in over), *[0] * 3 * n])
    return follow(recipe, frame.region.calls[1:], turned)


def _how(call: Call) -> str:
    if "max" in call.op:
        return "max"
    return f"avg_{'include' if call.attrs.get('count_include_pad') else 'exclude'}_padding"


def _sizes(call: Call, extents: list[int], results: list[int]) -> list[list[int]]:
    rank = len(extents)
    if "adaptive" in call.op:
        return [[1] * rank, extents, [0] * rank, [0] * rank, [0] * rank]
    attrs: Any = call.attrs
    strides, window = list(map(int, attrs["strides"])), list(map(int, attrs["pool_size"]))
    dilation = [int(d) for d in attrs["dilation"]]
    padding = [int(p) for p in attrs["padding"]]
    before, after = padding[:rank], padding[rank:]
    reach = [(n - 1) * s + (k - 1) * d + 1 - e - p for n, s, k, d, e, p in
             zip(results, strides, window, dilation, extents, before, strict=True)]  # fmt: skip
    after = [max(r, x) for r, x in zip(after, reach, strict=True)]
    return [strides, window, [d - 1 for d in dilation], before, after]
