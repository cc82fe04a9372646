"""NVIDIA cuDNN: convolutions with bias by channel, residual and activation.

Factors by channel go into constant weights, terms into the bias: (W x) s + b = (s W) x + b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....analysis.proposal.proposal import Constant
from ...backend.backend import Backend, Code
from ...backend.region import Array, Region, Tensor
from ...patterns.conditions import constant
from ...patterns.pattern import Condition, Node, Pattern, many, maybe, one
from ...patterns.symbolic_shapes import same_shape, spread, static
from ..common.fold_channels import SAME, Folded, fold
from ..common.region_source import Constants, ints, number
from . import attention
from .dtypes import HALVES, typed
from .estimated_cost import cost
from .gemm import added_to, full_size, other_operand, sums
from .locate import CUDART, CUDNN, CUDNN_FRONTEND, available, options
from .source import GpuFunction, joined_source

CONV = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
ACTIVATIONS = {"relax.nn.relu": "RELU", "relax.nn.relu6": "CLIPPED_RELU", "relax.clip":
               "CLIPPED_RELU", "relax.sigmoid": "SIGMOID", "relax.tanh": "TANH",
               "relax.nn.silu": "SWISH"}  # fmt: skip
DTYPES = {"float32": "CUDNN_DATA_FLOAT", "float16": "CUDNN_DATA_HALF",
          "bfloat16": "CUDNN_DATA_BFLOAT16"}  # fmt: skip
LIBRARIES = (CUDNN, CUDART)


def summed(dtype: str) -> Condition:
    """Return a condition: both operands have this dtype, and the result is float32."""

    def check(node: Node) -> str | None:
        found = [v.dtype for v in node.tensors]
        if found == ["float32", dtype, dtype]:
            return None
        return f"the dtypes are {', '.join(found)}, expected float32 of {dtype}"

    return check


def cast(before: str, after: str) -> Condition:
    """Return a condition: a cast between these dtypes."""

    def check(node: Node) -> str | None:
        value = node.operand(0)
        found = None if value is None else value.dtype, node.result.dtype
        return None if found == (before, after) else f"it is not a cast of {before} to {after}"

    return check


def layouts(last: bool) -> Condition:
    """Return a condition: operand and result have channels last, or first."""

    def check(node: Node) -> str | None:
        data, out = (str(node.info.attrs[k]) for k in ("data_layout", "out_layout"))
        expected = data_layout(node.info.name, last)
        if data != expected or out not in ("", data):
            return f"the layouts are {data} and {out}, expected {expected}"
        return None

    return check


def weights(node: Node) -> str | None:
    """The weights are constant, or in the layout that cuDNN takes."""
    expected = kernel_layout(str(node.info.attrs["data_layout"]))
    layout, value = str(node.info.attrs["kernel_layout"]), node.operand(1)
    if sorted(layout) != sorted(expected):
        return f"kernel_layout {layout} is packed, expected a permutation of axes"
    if value is None or not static(value.shape):
        return "the kernel has a symbolic shape, expected a static shape"
    if not value.constant and layout != expected:
        return f"kernel_layout of an input is {layout}, expected {expected}"
    return None


def data_layout(name: str, last: bool) -> str:
    pixels = {"1": "W", "2": "HW", "3": "DHW"}[name.partition("conv")[2][0]]
    return f"N{pixels}C" if last else f"NC{pixels}"


def kernel_layout(data: str) -> str:
    """The kernel layout that cuDNN requires for it: OIHW with NCHW, OHWI with NHWC."""
    return data.replace("N", "O").replace("C", "I")


def window(node: Node) -> str | None:
    """The padding is symmetric; the numbers of groups and channels are static."""
    attrs, value = node.info.attrs, node.operand(0)
    padding = [int(p) for p in attrs["padding"]]
    half = len(padding) // 2
    if padding[:half] != padding[half:]:
        return f"padding is {padding}, expected the same before and after"
    if value is None or not isinstance(value.shape[str(attrs["data_layout"]).index("C")], int):
        return "the number of channels is symbolic"
    return None if isinstance(attrs["groups"], int) else "groups is symbolic"


def by_channel(last: bool) -> Condition:
    """Return a condition: a sum with one value for each channel."""

    def check(node: Node) -> str | None:
        reason = sums(node)
        if reason is None and not _differs(node, node.others[0].shape, last, most=1):
            shape = node.others[0].shape
            return f"an operand has the shape {shape}, expected a bias: one value per channel"
        return reason

    return check


def by_constant(last: bool) -> Condition:
    """Return a condition: the other operand is a literal, or a constant by channel."""

    def check(node: Node) -> str | None:
        if (reason := typed(node)) is not None:
            return reason
        if node.info.name in ("relax.subtract", "relax.divide") and (
            node.operand(0) is not node.chain
        ):
            return f"{node.info.name} has the chain's value as operand 1, expected operand 0"
        if not node.others:
            literals = any(isinstance(o, Constant) for o in node.info.operands)
            has_literal = literals or "x1" in node.info.attrs or "x2" in node.info.attrs
            return None if has_literal else "it has one operand"
        operand = node.others[0]
        if len(node.others) != 1 or not operand.constant:
            return "the other operand is not constant"
        valid = _differs(node, operand.shape, last) and _as_chain(node)
        return None if valid else f"a constant of shape {operand.shape} is not by channel"

    return check


def _as_chain(node: Node) -> bool:
    assert node.chain is not None
    return same_shape(node.result.shape, node.chain.shape)


def _differs(node: Node, shape: Sequence[object], last: bool, most: int = 0) -> bool:
    """Whether a shape varies along the channel axis only; with ``most`` 0, also along none."""
    axis = len(node.result.shape) - 1 if last else 1
    axes = spread(shape, node.result.shape)
    return axes == (axis,) or (most == 0 and axes == ())


def clipped(node: Node) -> str | None:
    attrs = node.info.attrs
    if node.info.name == "relax.clip" and float(attrs["min"]) != 0.0:
        return f"clip has min={attrs['min']}, expected 0"
    return None


FACTORS = ("relax.add", "relax.subtract", "relax.multiply", "relax.divide")


def patterns() -> tuple[Pattern, ...]:
    """For channels first and last: with constants by channel, or with a bias known at run time."""
    out = []
    for last in (True, False):
        anchor = (typed, layouts(last), weights, window)
        after = (maybe("relax.add", full_size), maybe(ACTIVATIONS, typed, clipped))
        name = "conv_channels_last" if last else "conv_channels_first"
        out.append(
            Pattern(name, one(CONV, *anchor, constant(1)), many(FACTORS, by_constant(last)), *after)
        )
        out.append(
            Pattern(
                f"{name}_inputs", one(CONV, *anchor), maybe("relax.add", by_channel(last)), *after
            )
        )
        out += [p for dtype in HALVES for p in _rounded(dtype, last, name)]
    return tuple(out)


def _rounded(dtype: str, last: bool, name: str) -> list[Pattern]:
    """A half-precision program in float32, with its casts: cuDNN rounds once, at the end."""
    anchor = one(CONV, summed(dtype), layouts(last), weights, window, constant(1))
    narrow = one("relax.astype", cast("float32", dtype))
    widen = one("relax.astype", cast(dtype, "float32"))
    scaled = many(FACTORS, by_constant(last))
    return [
        Pattern(f"{name}_{dtype}", anchor, narrow),
        Pattern(f"{name}_{dtype}_scaled", anchor, narrow, widen, scaled,
                maybe(ACTIVATIONS, typed, clipped), narrow),
        Pattern(f"{name}_{dtype}_activated", anchor, narrow, widen, scaled, narrow, widen,
                one(ACTIVATIONS, typed, clipped), narrow),
    ]  # fmt: skip


def source(regions: Sequence[Region]) -> tuple[str, Constants, tuple[tuple[str, str], ...]]:
    """The C++ of all regions, the constants that it reads, and how it rounds differently."""
    rounds: list[tuple[str, str]] = []

    def body(frame: GpuFunction) -> list[str]:
        fused = attention.is_fused(frame.region)
        lines, rounding = attention.body(frame) if fused else _body(frame)
        rounds.extend([(frame.region.symbol, "; ".join(rounding))] * bool(rounding))
        return lines

    names = ["cudnn.hpp", *["attention.hpp"] * any(map(attention.is_fused, regions))]
    text, constants = joined_source(names, regions, body)
    return text, constants, tuple(rounds)


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    text, constants, rounds = source(regions)
    symbols = tuple(r.symbol for r in regions)
    libraries = (*LIBRARIES, *[CUDNN_FRONTEND] * any(map(attention.is_fused, regions)))
    return Code(text, symbols, constants.named(symbols[0]), options(*libraries), rounds)


def _body(frame: GpuFunction) -> tuple[list[str], list[str]]:
    region = frame.region
    call = region.calls[0]
    attrs = call.attrs
    data = str(attrs["data_layout"])
    folded = _folded(region, data)
    operand, weight = call.operands[:2]
    assert isinstance(operand, Tensor) and isinstance(weight, Tensor)
    rank = len(data) - 2
    order = [data.index("N"), data.index("C"), *(k for k, c in enumerate(data) if c not in "NC")]
    body = ["Conv v;", f"v.type = {DTYPES[weight.dtype]};",
            f"v.kernel = CUDNN_TENSOR_{'NHWC' if data[-1] == 'C' else 'NCHW'};",
            f"v.order = {{{ints(order)}}};", f"v.strides = {{{ints(attrs['strides'])}}};",
            f"v.dilation = {{{ints(attrs['dilation'])}}};",
            f"v.padding = {{{ints(attrs['padding'][:rank])}}};", f"v.groups = {attrs['groups']};",
            f"v.x = {frame.view(operand)};", f"v.w = {_weights(frame, weight, folded, data)};",
            f"v.y = {frame.view(region.result)};"]  # fmt: skip
    body += _after(frame, folded, data)
    half = [f"products of {weight.dtype} are added in float32, rounded at the end"]
    return [*body, "return convolution(c, v);"], half * (weight.dtype != "float32") + folded.rounds


def _folded(region: Region, data: str) -> Folded:
    weights = region.calls[0].operands[1]
    assert isinstance(weights, Tensor)
    axis = data.index("C")
    count = region.result.shape[axis]
    folded = fold(region, axis, count, weights.source == "constant")
    if folded.shift is None:
        return folded
    return replace(folded, shift=np.broadcast_to(folded.shift, (count,)))


def _weights(frame: GpuFunction, tensor: Tensor, folded: Folded, data: str) -> str:
    """The C++ of the weights; constant ones are transposed for the data's layout, and scaled."""
    if tensor.source != "constant":
        return frame.view(tensor)
    kernel = str(frame.region.calls[0].attrs["kernel_layout"])
    order = kernel_layout(data)
    array: Array = frame.region.constants[tensor.index].transpose([kernel.index(c) for c in order])
    if folded.scale is not None:
        scale = folded.scale.reshape([-1] + [1] * (array.ndim - 1))
        array = (array.astype("float32") * scale).astype(array.dtype)
    return frame.constant(array)


def _after(frame: GpuFunction, folded: Folded, data: str) -> list[str]:
    """C++ for bias, residual and activation.

    cuDNN fuses the others only with a bias, so a missing bias is zeros.
    """
    region, body = frame.region, []
    calls = [call for call in folded.epilogue if call.op not in SAME]
    activation = calls.pop() if calls and calls[-1].op in ACTIVATIONS else None
    bias, residual = added_to([(c, other_operand(c)) for c in calls])
    how = ACTIVATIONS[activation.op] if activation is not None else "IDENTITY"
    if folded.shift is not None:
        shift = folded.shift.astype(_numpy(region))
        body.append(f"v.bias = {frame.constant(shift)};")
    elif bias is not None:
        body.append(f"v.bias = {frame.view(bias)};")
    elif residual is not None or how == "RELU":
        zeros = np.zeros(region.result.shape[data.index("C")], _numpy(region))
        body.append(f"v.bias = {frame.constant(zeros)};")
    if residual is not None:
        body.append(f"v.residual = {frame.view(residual)};")
    body.append(f"v.activation = CUDNN_ACTIVATION_{how};")
    if how == "CLIPPED_RELU":
        assert activation is not None
        limit = 6.0 if activation.op == "relax.nn.relu6" else float(activation.attrs["max"])
        body.append(f"v.limit = {number(limit)};")
    return body


def _numpy(region: Region) -> Any:
    """The dtype of the result in numpy; bfloat16 comes from ml_dtypes."""
    if region.result.dtype != "bfloat16":
        return region.result.dtype
    import ml_dtypes

    return ml_dtypes.bfloat16


BACKEND = Backend(
    "cudnn", (*patterns(), *attention.patterns()), convert, lambda: available(*LIBRARIES),
    {"relax.nn.conv2d": ("NHWC", "OHWI")}, cost, CUDNN.version, views=True,
)  # fmt: skip
