"""Regions of int8: the same primitives as for float32, with scales and zero points.

s_x s_w Σ (x - z_x) w + bias + s_r (r - z_r) …  is computed as  ((…) / s_r + r) s_r - s_r z_r
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from .....analysis.proposal.proposal import Constant
from ....backend.region import Array, Call, Region, Tensor
from ....prepare.integers import DEQUANTIZE, QUANTIZE
from ...common.fold_channels import Folded, fold
from .conv import sizes_of, spatial_of
from .matmul import rows
from .post import follow
from .recipe import OperandView, Recipe
from .source import OneDnnFunction, order

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


def convolution(frame: OneDnnFunction) -> Recipe:
    """conv1d, conv2d and conv3d, of any groups and dilation."""
    inner = stripped(frame.region)
    call = inner.region.calls[0]
    attrs, spatial = call.attrs, spatial_of(call)
    layouts = [str(attrs[k]) for k in ("data_layout", "kernel_layout", "out_layout")]
    data, kernel, out = layouts[0], layouts[1], layouts[2] or layouts[0]
    groups, rank, axes = int(attrs["groups"]), len(out), "NC" + spatial
    first, second = call.operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)

    def turned(tensor: Tensor) -> OperandView:
        return frame.of(tensor).expanded(rank).permuted(order(out, axes))

    folded = fold(inner.region, rank - 1, call.result.shape[-1], True)
    weights = frame.of(second).permuted(order(kernel, "OI" + spatial)).grouped(groups)
    recipe = Recipe("quantized_convolution")
    recipe.views(src=frame.of(first).permuted(order(data, axes)), weights=weights,
                 dst=frame.out.permuted(order(out, axes)))  # fmt: skip
    recipe.numbers(chain.from_iterable(sizes_of(attrs, len(spatial), False)))
    mask = 1 if groups == 1 else 3
    return _around(frame, recipe, inner, folded, mask, call.result.shape[-1], 1, turned)


def matmul(frame: OneDnnFunction) -> Recipe:
    """A batch times one matrix becomes a product of two matrices."""
    inner = stripped(frame.region)
    call = inner.region.calls[0]
    first, second = call.operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    rank, count = len(call.result.shape), call.result.shape[-1]
    folded = fold(inner.region, rank - 1, count if isinstance(count, int) else None, True)
    merge = rank > 2 and len(second.shape) == 2 and rows(inner.region, folded)
    axes = 2 if merge else rank

    def turned(tensor: Tensor) -> OperandView:
        return frame.matrix(tensor, rank, merge)

    recipe = Recipe("quantized_matmul")
    recipe.views(src=turned(first), weights=frame.of(second).expanded(axes),
                 dst=turned(frame.region.result))  # fmt: skip
    return _around(frame, recipe, inner, folded, 1 << (axes - 1), count, axes, turned)


def _around(
    frame: OneDnnFunction,
    recipe: Recipe,
    inner: Stripped,
    folded: Folded,
    channels: int,
    count: Any,
    rank: int,
    view: Callable[[Tensor], OperandView],
) -> Recipe:
    """The recipe with scales, bias and post-ops.

    ``channels`` masks the weights' axis of output channels, ``rank`` is that of the bias.
    """
    data, weights = inner.operands[0, 0], inner.operands[0, 1]
    scale = weights.scale if folded.scale is None else weights.scale * folded.scale
    frame.rounds += [EXACT, *[EVEN] * (inner.result is not None), *folded.rounds]
    mask = channels if scale.size > 1 else 0
    _scale(frame, recipe, "src", data)
    recipe.scale("weights", mask, frame.fixed(_plain(scale)))
    if inner.result is not None:
        _result(frame, recipe, inner.result)
    if folded.shift is not None:
        shift = np.ascontiguousarray(np.broadcast_to(folded.shift, (count,)))
        recipe.view("bias", frame.fixed(shift).expanded(rank))
    recipe = _post(recipe, inner, folded.epilogue, view)
    return recipe if inner.result is None else _rounded(recipe, inner.result)


def _result(frame: OneDnnFunction, recipe: Recipe, params: Scaled) -> None:
    """Quantise the result by oneDNN, which adds the zero point and then rounds to even."""
    if params.zero % 2 == 0:
        _scale(frame, recipe, "dst", params)
    else:
        recipe.zero("dst", frame.fixed(np.asarray([params.zero], "int32")))


def _rounded(recipe: Recipe, params: Scaled) -> Recipe:
    """The recipe with a last step that rounds, if the zero point is odd."""
    if params.zero % 2 == 0:
        return recipe
    return recipe.eltwise("linear", 1.0 / float(params.scale[0]), 0.0).eltwise("round", 0.0, 0.0)


def _scale(frame: OneDnnFunction, recipe: Recipe, argument: str, params: Scaled) -> None:
    recipe.scale(argument, 0, frame.fixed(_plain(params.scale)))
    if params.zero:
        recipe.zero(argument, frame.fixed(np.asarray([params.zero], "int32")))


def _plain(array: Array) -> Array:
    return np.ascontiguousarray(array.reshape(-1).astype("float32"))


def _post(
    recipe: Recipe, inner: Stripped, calls: Sequence[Call], view: Callable[[Tensor], OperandView]
) -> Recipe:
    """The recipe with the operators between the product and quantize."""
    for call in calls:
        dequantized = [(j, q) for (k, j), q in inner.operands.items() if k == call.result.index]
        if not dequantized:
            follow(recipe, [call], view)
            continue
        ((j, params),) = dequantized
        scale, operand = float(params.scale[0]), call.operands[j]
        assert isinstance(operand, Tensor)
        recipe.eltwise("linear", 1.0 / scale, 0.0).binary("binary_add", view(operand))
        recipe.eltwise("linear", scale, -scale * params.zero)
    return recipe


def add(frame: OneDnnFunction) -> Recipe:
    """A sum of two quantised tensors, which is quantised too."""
    inner = stripped(frame.region)
    call, *epilogue = inner.region.calls
    first, second = call.operands
    a, b, into = inner.operands[0, 0], inner.operands[0, 1], inner.result
    assert isinstance(first, Tensor) and isinstance(second, Tensor) and into is not None
    rank = len(call.result.shape)
    shift = -(float(a.scale[0]) * a.zero + float(b.scale[0]) * b.zero)
    frame.rounds.append(EVEN)
    recipe = Recipe("quantized_binary").algorithm("binary_add")
    recipe.views(src=frame.of(first), other=frame.of(second), dst=frame.out)
    recipe.scale("src0", 0, frame.fixed(_plain(a.scale)))
    recipe.scale("src1", 0, frame.fixed(_plain(b.scale)))
    if shift != 0:
        recipe.eltwise("linear", 1.0, shift)
    _post(recipe, inner, epilogue, lambda t: frame.of(t).expanded(rank))
    if into.zero % 2 == 0:
        return recipe.eltwise("linear", 1.0 / float(into.scale[0]), float(into.zero))
    return _rounded(recipe, into).eltwise("linear", 1.0, float(into.zero))


def conversion(frame: OneDnnFunction) -> Recipe:
    """A quantize, a dequantize, or both."""
    calls = frame.region.calls
    source = calls[0].operands[0]
    assert isinstance(source, Tensor)
    frame.rounds += [EVEN] * (calls[-1].op == QUANTIZE)
    recipe = Recipe("converted").views(src=frame.of(source).flat(), dst=frame.out.flat())
    for call in calls:
        argument = {QUANTIZE: "dst", DEQUANTIZE: "src"}[call.op]
        _scale(frame, recipe, argument, scaled(frame.region, call))
    return recipe


def quantized(frame: OneDnnFunction) -> Recipe:
    """Any region with a quantize or a dequantize."""
    names = [c.op for c in frame.region.calls]
    if {QUANTIZE, DEQUANTIZE}.issuperset(names):
        return conversion(frame)
    anchor = next(n for n in names if n != DEQUANTIZE)
    return {"relax.matmul": matmul, "relax.add": add}.get(anchor, convolution)(frame)
