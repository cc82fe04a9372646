"""Regions of int8: the same primitives as for float32, with scales and zero points.

s_x s_w Σ (x - z_x) w + bias + s_r (r - z_r) …  is computed as  ((…) / s_r + r) s_r - s_r z_r
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from ....analysis.proposal.proposal import Constant
from ...backend.region import Array, Call, Region, Tensor
from ...prepare.integers import DEQUANTIZE, QUANTIZE
from ..common.fold_channels import Folded, fold
from ..common.region_source import ints
from .conv import sizes_of, spatial_of
from .matmul import rows
from .post import eltwise, lines
from .source import OneDnnFunction, permuted

EVEN = "halves are quantised to the even neighbour"
EXACT = "products of int8 are summed without rounding"


@dataclass(frozen=True)
class Scaled:
    """The real numbers that integers ``q`` represent: ``(q - zero) * scale``."""

    scale: Array
    zero: int


@dataclass(frozen=True)
class Stripped:
    """A region over integers, without its dequantize and quantize.

    ``operands`` has their parameters by call and operand, ``result`` those of the result.
    """

    region: Region
    operands: dict[tuple[int, int], Scaled]
    result: Scaled | None


def stripped(region: Region) -> Stripped:
    """The region without its dequantize and quantize."""
    last = region.calls[-1] if region.calls[-1].op == QUANTIZE else None
    inner = [c for c in region.calls if c.op != DEQUANTIZE and c is not last]
    dequantizes = {c.result.index: c for c in region.calls if c.op == DEQUANTIZE}
    number = {c.result.index: k for k, c in enumerate(inner)}
    operands: dict[tuple[int, int], Scaled] = {}

    def of(k: int, j: int, operand: Tensor | Constant) -> Tensor | Constant:
        if not isinstance(operand, Tensor) or operand.source != "call":
            return operand
        if operand.index in number:
            return replace(operand, index=number[operand.index])
        operands[k, j] = scaled(region, dequantizes[operand.index])
        (source, *_) = dequantizes[operand.index].operands
        return source

    calls = tuple(
        Call(call.op, call.attrs, tuple(of(k, j, o) for j, o in enumerate(call.operands)),
             replace(call.result, index=k)) for k, call in enumerate(inner)
    )  # fmt: skip
    result = None if last is None else scaled(region, last)
    return Stripped(replace(region, calls=calls), operands, result)


def scaled(region: Region, call: Call) -> Scaled:
    """Scale and zero point of a dequantize or a quantize."""
    scale, zero = (_elements(region, o) for o in call.operands[1:3])
    return Scaled(scale.astype("float32"), int(zero.ravel()[0]))


def _elements(region: Region, operand: Tensor | Constant) -> Array:
    if isinstance(operand, Constant):
        return np.asarray([operand.value])
    return np.asarray(region.constants[operand.index]).reshape(-1)


def convolution(frame: OneDnnFunction) -> list[str]:
    """conv1d, conv2d and conv3d, of any groups and dilation."""
    inner = stripped(frame.region)
    call = inner.region.calls[0]
    attrs, spatial = call.attrs, spatial_of(call)
    layouts = [str(attrs[k]) for k in ("data_layout", "kernel_layout", "out_layout")]
    data, kernel, out = layouts[0], layouts[1], layouts[2] or layouts[0]
    groups, rank = int(attrs["groups"]), len(out)
    first, second = call.operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)

    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({rank}){permuted(out, 'NC' + spatial)}"

    folded = fold(inner.region, rank - 1, call.result.shape[-1], True)
    body = [f"const View src = {frame.view(first)}{permuted(data, 'NC' + spatial)};",
            f"const View weights = {frame.view(second)}"
            f"{permuted(kernel, 'OI' + spatial)}.grouped({groups});",
            f"const View dst = {frame.result}{permuted(out, 'NC' + spatial)};"]  # fmt: skip
    body += _around(frame, inner, folded, 1 if groups == 1 else 3, call.result.shape[-1], 1, turned)
    sizes = ints(chain.from_iterable(sizes_of(attrs, len(spatial), False)))
    return [*body, f"static const int64_t sizes[] = {{{sizes}}};",
            "return quantised_convolution(src, weights, bias, dst, sizes, post, scales);",
            ]  # fmt: skip


def matmul(frame: OneDnnFunction) -> list[str]:
    """A batch times one matrix becomes a product of two matrices."""
    inner = stripped(frame.region)
    call = inner.region.calls[0]
    first, second = call.operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    rank, count = len(call.result.shape), call.result.shape[-1]
    folded = fold(inner.region, rank - 1, count if isinstance(count, int) else None, True)
    merge = rank > 2 and len(second.shape) == 2 and rows(inner.region, folded)
    axes = 2 if merge else rank

    def turned(tensor: Tensor) -> str:
        return frame.matrix(tensor, rank, merge)

    body = [f"const View src = {turned(first)};",
            f"const View weights = {frame.view(second)}.expanded({axes});",
            f"const View dst = {turned(frame.region.result)};"]  # fmt: skip
    body += _around(frame, inner, folded, 1 << (axes - 1), count, axes, turned)
    return [*body, "return quantised_matmul(src, weights, bias, dst, post, scales);"]


def _around(
    frame: OneDnnFunction,
    inner: Stripped,
    folded: Folded,
    channels: int,
    count: Any,
    rank: int,
    view: Any,
) -> list[str]:
    """C++ of scales, bias and post-ops; ``channels`` masks the weights' axis of output channels.

    ``rank`` is that of the bias.
    """
    data, weights = inner.operands[0, 0], inner.operands[0, 1]
    scale = weights.scale if folded.scale is None else weights.scale * folded.scale
    frame.rounds += [EXACT, *[EVEN] * (inner.result is not None), *folded.rounds]
    mask = channels if scale.size > 1 else 0
    factors = frame.constant(_plain(scale))
    body = ["Scales scales;", *_scale(frame, "DNNL_ARG_SRC", data),
            f"scales.scale(DNNL_ARG_WEIGHTS, {mask}, {factors});"]  # fmt: skip
    if inner.result is not None:
        body += _scale(frame, "DNNL_ARG_DST", inner.result)
    body.append("const View* bias = nullptr;")
    if folded.shift is not None:
        shift = np.ascontiguousarray(np.broadcast_to(folded.shift, (count,)))
        body += [f"const View sums = {frame.constant(shift)}.expanded({rank});", "bias = &sums;"]
    return [*body, "Post post;", *_post(inner, folded.epilogue, view)]


def _scale(frame: OneDnnFunction, arg: str, params: Scaled) -> list[str]:
    out = [f"scales.scale({arg}, 0, {frame.constant(_plain(params.scale))});"]
    if params.zero:
        out.append(f"scales.zero({arg}, {frame.constant(np.asarray([params.zero], 'int32'))});")
    return out


def _plain(array: Array) -> Array:
    return np.ascontiguousarray(array.reshape(-1).astype("float32"))


def _post(inner: Stripped, calls: Any, view: Any) -> list[str]:
    """C++ of the operators between the product and quantize."""
    out = []
    for call in calls:
        dequantized = [(j, q) for (k, j), q in inner.operands.items() if k == call.result.index]
        if not dequantized:
            out += lines([call], view)
            continue
        ((j, params),) = dequantized
        scale = float(params.scale[0])
        out += [
            f"post.eltwise({eltwise('linear', 1.0 / scale, 0.0)});",
            f"post.binary(algorithm::binary_add, {view(call.operands[j])});",
            f"post.eltwise({eltwise('linear', scale, -scale * params.zero)});",
        ]
    return out


def add(frame: OneDnnFunction) -> list[str]:
    """A sum of two quantised tensors, which is quantised too."""
    inner = stripped(frame.region)
    call, *epilogue = inner.region.calls
    first, second = call.operands
    a, b, into = inner.operands[0, 0], inner.operands[0, 1], inner.result
    assert isinstance(first, Tensor) and isinstance(second, Tensor) and into is not None
    rank = len(call.result.shape)

    def turned(tensor: Tensor) -> str:
        return f"{frame.view(tensor)}.expanded({rank})"

    shift = -(float(a.scale[0]) * a.zero + float(b.scale[0]) * b.zero)
    frame.rounds.append(EVEN)
    scale = 1.0 / float(into.scale[0])
    return [
        f"const View src = {frame.view(first)};", f"const View other = {frame.view(second)};",
        f"const View dst = {frame.result};", "Scales scales;",
        f"scales.scale(DNNL_ARG_SRC_0, 0, {frame.constant(_plain(a.scale))});",
        f"scales.scale(DNNL_ARG_SRC_1, 0, {frame.constant(_plain(b.scale))});",
        "Post post;",
        *[f"post.eltwise({eltwise('linear', 1.0, shift)});"] * (shift != 0),
        *_post(inner, epilogue, turned),
        f"post.eltwise({eltwise('linear', scale, float(into.zero))});",
        "return quantised_binary(algorithm::binary_add, src, other, dst, post, scales);",
    ]  # fmt: skip


def conversion(frame: OneDnnFunction) -> list[str]:
    """A quantize, a dequantize, or both."""
    calls = frame.region.calls
    source = calls[0].operands[0]
    assert isinstance(source, Tensor)
    frame.rounds += [EVEN] * (calls[-1].op == QUANTIZE)
    args = {QUANTIZE: "DNNL_ARG_DST", DEQUANTIZE: "DNNL_ARG_SRC"}
    scales = [line for c in calls for line in _scale(frame, args[c.op], scaled(frame.region, c))]
    return [f"const View src = {frame.view(source)}.flat();",
            f"const View dst = {frame.result}.flat();", "Scales scales;",
            *scales, "return converted(src, dst, scales);"]  # fmt: skip


def quantised(frame: OneDnnFunction) -> list[str]:
    """Any region with a quantize or a dequantize."""
    names = [c.op for c in frame.region.calls]
    if {QUANTIZE, DEQUANTIZE}.issuperset(names):
        return conversion(frame)
    anchor = next(n for n in names if n != DEQUANTIZE)
    return {"relax.matmul": matmul, "relax.add": add}.get(anchor, convolution)(frame)
