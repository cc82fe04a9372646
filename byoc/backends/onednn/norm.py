"""Softmax along an axis; layer normalisation along the last one."""

from __future__ import annotations

from ...backend.region import Tensor
from ..common.region_source import number
from .post import lines
from .source import OneDnnFunction


def softmax(frame: OneDnnFunction) -> list[str]:
    call = frame.region.calls[0]
    (source,) = call.operands
    assert isinstance(source, Tensor)
    rank = len(source.shape)
    how = "log" if call.op.endswith("log_softmax") else "accurate"
    return [
        f"const View src = {frame.view(source)};",
        f"const View dst = {frame.result};",
        *_post(frame, rank),
        f"return softmax(algorithm::softmax_{how}, src, dst, {int(call.attrs['axis']) % rank}, "
        "post);",
    ]


def layer_norm(frame: OneDnnFunction) -> list[str]:
    call = frame.region.calls[0]
    source, *params = call.operands
    assert isinstance(source, Tensor)
    rank = len(source.shape)
    body = [f"const View src = {frame.view(source)};", f"const View dst = {frame.result};"]
    names = [n for n, a in (("scale", "scale"), ("shift", "center")) if call.attrs.get(a, True)]
    used = dict(zip(names, params, strict=False))
    for name, operand in used.items():
        assert isinstance(operand, Tensor)
        body.append(f"const View {name} = {frame.view(operand)};")
    arguments = ", ".join(f"&{n}" if n in used else "nullptr" for n in ("scale", "shift"))
    epsilon = number(float(call.attrs["epsilon"]))
    return [*body, *_post(frame, rank),
            f"return layer_norm(src, {arguments}, dst, {epsilon}, post);"]  # fmt: skip


def _post(frame: OneDnnFunction, rank: int) -> list[str]:
    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({rank})"

    return ["Post post;", *lines(frame.region.calls[1:], turned)]
