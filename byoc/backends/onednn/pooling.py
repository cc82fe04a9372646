"""Pooling: windows of a fixed size, windows as large as the image, and means."""

from __future__ import annotations

from typing import Any

from ...backend.region import Call, Tensor
from ..common.region_source import ints
from .post import lines
from .source import OneDnnFunction, moved, permuted


def pooling(frame: OneDnnFunction) -> list[str]:
    """max_pool, avg_pool and adaptive_avg_pool to a single element."""
    call = frame.region.calls[0]
    data = str(call.attrs["layout"])
    out = str(call.attrs["out_layout"]) or data
    order = "NC" + "".join(c for c in "DHW" if c in data)
    (source,) = call.operands
    assert isinstance(source, Tensor)

    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({len(out)}){permuted(out, order)}"

    extents = [source.shape[data.index(c)] for c in order[2:]]
    strides, window, dilation, before, after = _sizes(call, extents, [
        call.result.shape[out.index(c)] for c in order[2:]])  # fmt: skip
    return [
        f"const View src = {frame.view(source)}{permuted(data, order)};",
        f"const View dst = {frame.result}{permuted(out, order)};",
        "Post post;", *lines(frame.region.calls[1:], turned),
        *_pooled(_how(call), [*strides, *window, *dilation, *before, *after]),
    ]  # fmt: skip


def mean(frame: OneDnnFunction) -> list[str]:
    """A mean over all but two axes: average pooling with these two as batch and channels."""
    call = frame.region.calls[0]
    (source,) = call.operands
    assert isinstance(source, Tensor)
    rank = len(source.shape)
    over = sorted(int(a) % rank for a in call.attrs["axis"])
    order = [a for a in range(rank) if a not in over] + over
    out_rank = 2 + len(over) * bool(call.attrs["keepdims"])

    def turned(tensor: Tensor) -> str:
        kept = f".expanded({out_rank})"
        return f"{frame.view(tensor)}{kept}{moved(order) if out_rank > 2 else f'.trailing({rank})'}"

    n = len(over)
    sizes = [*[1] * n, *(source.shape[a] for a in over), *[0] * 3 * n]
    return [
        f"const View src = {frame.view(source)}{moved(order)};",
        f"const View dst = {turned(frame.region.result)};",
        "Post post;", *lines(frame.region.calls[1:], turned),
        *_pooled("avg_exclude_padding", sizes),
    ]  # fmt: skip


def _pooled(how: str, sizes: list[int]) -> list[str]:
    return [f"static const int64_t sizes[] = {{{ints(sizes)}}};",
            f"return pooling(algorithm::pooling_{how}, src, dst, sizes, post);"]  # fmt: skip


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
