"""Concatenation of tensors along an axis."""

from __future__ import annotations

from ...backend.region import Tensor
from .post import lines
from .source import OneDnnFunction


def concat(frame: OneDnnFunction) -> list[str]:
    call = frame.region.calls[0]
    rank = len(call.result.shape)

    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({rank})"

    parts = ", ".join(frame.view(o) for o in call.operands if isinstance(o, Tensor))
    return [
        f"const View parts[] = {{{parts}}};",
        f"const View dst = {frame.result};",
        "Post post;", *lines(frame.region.calls[1:], turned),
        f"return concat(parts, {len(call.operands)}, dst, {int(call.attrs['axis']) % rank}, post);",
    ]  # fmt: skip
