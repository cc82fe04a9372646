"""Chains of pointwise operators without an anchor."""

from __future__ import annotations

from ...backend.region import Tensor
from ..common.region_source import literal
from .post import BINARY, eltwise, eltwise_of, lines, scalar
from .source import OneDnnFunction


def pointwise(frame: OneDnnFunction) -> list[str]:
    call, *epilogue = frame.region.calls
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    rank = len(frame.region.result.shape)

    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({rank})"

    body = [f"const View dst = {frame.result};", "Post post;", *lines(epilogue, turned),
            f"const View src = {frame.view(tensors[0])};"]  # fmt: skip
    algorithm = eltwise_of(call.op, call.attrs) or scalar(
        call.op, literal(call, "x1"), literal(call, "x2")
    )
    if algorithm is not None:
        return [*body, f"return eltwise({eltwise(*algorithm)}, src, dst, post);"]
    body.append(f"const View other = {turned(tensors[1])};")
    return [*body, f"return binary(algorithm::{BINARY[call.op]}, src, other, dst, post);"]
