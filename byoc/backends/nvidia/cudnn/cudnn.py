"""NVIDIA cuDNN: convolutions with bias by channel, residual and activation, as graphs.

Factors by channel go into constant weights, terms into the bias: (W x) s + b = (s W) x + b.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....backend.backend import Backend, Code
from ....backend.region import Array, Call, Region, Tensor
from ....patterns.extents.symbolic_shapes import same_shape
from ....patterns.unary_functions import HARD_SWISH
from ...common.fold_channels import SAME, Folded, fold
from ...common.region_source import Constants, ints, number
from ..attention import attention
from ..attention.attention_object import attention_source
from ..attention.floats import attention32
from ..libraries.estimated_cost import conversion, cost
from ..libraries.locate import CUDART, CUDNN, available, options
from ..libraries.source import GpuFunction, joined_source, library_headers
from .conv_patterns import kernel_layout, patterns
from .kernels import grouped_kernel
from .kernels.conv_epilogue import image

HEADERS = ("kernels/epilogue.h", "kernels/epilogue.hpp", "kernels/grouped.h",
           "kernels/grouped.hpp", "cudnn_graph.hpp", "cudnn_records.hpp", "cudnn_plans.hpp",
           "cudnn_shared.hpp", "conv_phases.hpp", "conv.hpp", "conv_run.hpp", "conv_choice.hpp",
           "cudnn.hpp")  # fmt: skip
ACTIVATIONS = {"relax.nn.relu": "kRelu", "relax.nn.relu6": "kRelu", "relax.clip": "kRelu",
               "relax.sigmoid": "kSigmoid", "relax.tanh": "kTanh",
               "relax.nn.silu": "kSilu", "relax.nn.leakyrelu": "kLeakyRelu"}  # fmt: skip
DTYPES = {"float32": "CUDNN_DATA_FLOAT", "float16": "CUDNN_DATA_HALF",
          "bfloat16": "CUDNN_DATA_BFLOAT16"}  # fmt: skip
LIBRARIES = (CUDNN, CUDART)
ROUNDS = "products of {} are added in float32, rounded at the end"
EARLIER = "or also before what follows them, if that is a kernel of its own"


def source(
    regions: Sequence[Region], more: str = ""
) -> tuple[str, Constants, tuple[tuple[str, str], ...]]:
    """The C++ of all regions, the constants that it reads, and how it rounds differently.

    ``more`` is C++ in front of the regions.
    """
    rounds: list[tuple[str, str]] = []

    def body(frame: GpuFunction) -> list[str]:
        lines, rounding = _maker(frame.region)(frame)
        rounds.extend([(frame.region.symbol, "; ".join(rounding))] * bool(rounding))
        return lines

    text, constants = joined_source(library_headers(__package__, *HEADERS), regions, body, more)
    return text, constants, tuple(rounds)


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    makers = set(map(_maker, regions))
    more, words = attention_source() if attention.body in makers else ("", ())
    if attention32.body in makers:
        more += attention32.text("attention32.h") + attention32.text("attention32.hpp")
    text, constants, rounds = source(regions, more)
    symbols = tuple(r.symbol for r in regions)
    return Code(
        text,
        symbols,
        constants.named(symbols[0]),
        (*options(*LIBRARIES), "-pthread", "-ldl", *words),
        rounds,
    )


def _maker(region: Region) -> Callable[[GpuFunction], tuple[list[str], list[str]]]:
    """What writes the C++ of a region, and says how it rounds."""
    if attention32.is_float(region):
        return attention32.body
    return attention.body if attention.is_fused(region) else _body


def _body(frame: GpuFunction) -> tuple[list[str], list[str]]:
    region = frame.region
    call = region.calls[0]
    attrs = call.attrs
    data = str(attrs["data_layout"])
    folded = _folded(region, data)
    operand, weight = call.operands[:2]
    assert isinstance(operand, Tensor) and isinstance(weight, Tensor)
    transposed = call.op.endswith("_transpose")
    rank = len(data) - 2
    order = [data.index("N"), data.index("C"), *(k for k, c in enumerate(data) if c not in "NC")]
    body = ["Conv v;", f"v.type = {DTYPES[weight.dtype]};", f"v.last = {_cpp(data[-1] == 'C')};",
            f"v.transposed = {_cpp(transposed)};",
            f"v.order = {{{ints(order)}}};", f"v.strides = {{{ints(attrs['strides'])}}};",
            f"v.dilation = {{{ints(attrs['dilation'])}}};",
            f"v.padding = {{{ints(attrs['padding'][:rank])}}};", f"v.groups = {attrs['groups']};",
            f"v.x = {frame.view(operand)};", f"v.w = {_weights(frame, weight, folded, data)};",
            f"v.y = {frame.view(region.result)};",
            f"v.kernels = {frame.image(image(weight.dtype))};",
            *_grouped(frame, call, weight)]  # fmt: skip
    after = _after(frame, folded)
    rounds = [ROUNDS.format(weight.dtype), *[EARLIER] * bool(after)]
    rounds = folded.rounds if weight.dtype == "float32" else rounds + folded.rounds
    return [*body, *after, "return convolution(c, v);"], rounds


def _grouped(frame: GpuFunction, call: Call, weight: Tensor) -> list[str]:
    """C++ for our own kernels of groups, if they take the convolution."""
    kernel, groups = str(call.attrs["kernel_layout"]), int(call.attrs["groups"])
    sizes = dict(zip(kernel, map(int, weight.shape), strict=True))
    channels = sizes["I"], sizes["O"] // groups
    window = [sizes[c] for c in kernel if c not in "IO"]
    last = str(call.attrs["data_layout"]).endswith("C")
    if not last or call.op.endswith("_transpose") or not grouped_kernel.runs_here():
        return []
    if not grouped_kernel.takes(weight.dtype, groups, channels, window):
        return []
    kernels = grouped_kernel.image(weight.dtype, channels, (window[0], window[1]))
    return [f"v.grouped = {frame.image(kernels)};"]


def _cpp(value: bool) -> str:
    return "true" if value else "false"


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
    call = frame.region.calls[0]
    kernel = str(call.attrs["kernel_layout"])
    order = kernel_layout(call.op, data)
    array: Array = frame.region.constants[tensor.index].transpose([kernel.index(c) for c in order])
    if folded.scale is not None:
        scale = _by_weight(folded.scale, array.shape, order, int(call.attrs["groups"]))
        array = (array.astype("float32") * scale).astype(array.dtype)
    return frame.constant(array)


def _by_weight(scale: Array, shape: tuple[int, ...], order: str, groups: int) -> Array:
    """A factor for each result's channel, as an array that broadcasts to the weights.

    The weights of a transposed convolution have the outputs of one group: there the inputs of a
    group have its factors.
    """
    out, inner = order.index("O"), order.index("I")
    axes = [1] * len(shape)
    if out == 0:
        axes[0] = shape[0]
        return np.broadcast_to(scale, (shape[0],)).reshape(axes)
    axes[inner], axes[out] = shape[inner], shape[out]
    rows = np.broadcast_to(scale, (groups * shape[out],)).reshape(groups, shape[out])
    by_input = np.repeat(rows, shape[inner] // groups, axis=0)
    return (by_input if inner < out else by_input.T).reshape(axes)


def _after(frame: GpuFunction, folded: Folded) -> list[str]:
    """C++ for bias, residual and activation, and a tensor that is added at the end."""
    region, body = frame.region, []
    if folded.shift is not None:
        body.append(f"v.bias = {frame.constant(folded.shift.astype(_numpy(region)))};")
    chain, widened = _chain(region)
    names = ["residual", "added"]
    for call in folded.epilogue:
        if call.op in (*ACTIVATIONS, HARD_SWISH):
            body += _activation(frame, call)
            names = ["added"]
        elif call.op not in SAME:
            operand = next(o for o in _tensors(call) if not _is_call(o) or o.index not in chain)
            operand = widened.get(operand.index, operand) if _is_call(operand) else operand
            whole = same_shape(operand.shape, call.result.shape)
            body.append(f"v.{names.pop(0) if whole else 'bias'} = {frame.view(operand)};")
    return body


def _chain(region: Region) -> tuple[set[int], dict[int, Tensor]]:
    """The results that depend on the convolution, and what the casts of others are casts of."""
    chain, widened = {region.calls[0].result.index}, {}
    for call in region.calls[1:]:
        tensors = _tensors(call)
        if any(_is_call(o) and o.index in chain for o in tensors):
            chain.add(call.result.index)
        else:
            widened[call.result.index] = tensors[0]
    return chain, widened


def _tensors(call: Call) -> list[Tensor]:
    return [o for o in call.operands if isinstance(o, Tensor)]


def _is_call(tensor: Tensor) -> bool:
    return tensor.source == "call"


def _activation(frame: GpuFunction, call: Call) -> list[str]:
    if call.op == HARD_SWISH:
        return _hard_swish(frame, float(call.attrs["alpha"]), float(call.attrs["beta"]))
    body = [f"v.activation = {ACTIVATIONS[call.op]};"]
    if call.op in ("relax.nn.relu6", "relax.clip"):
        limit = 6.0 if call.op == "relax.nn.relu6" else float(call.attrs["max"])
        body.append(f"v.limit = {number(limit)};")
    if call.op == "relax.nn.leakyrelu":
        body.append(f"v.slope = {number(float(call.attrs['alpha']))};")
    return body


def _hard_swish(frame: GpuFunction, alpha: float, beta: float) -> list[str]:
    """C++ for x · clip(alpha x + beta, 0, 1), which is x · clip(x + beta / alpha, 0, 1 / alpha) ·
    alpha if alpha is positive.
    """
    offset, factor = (frame.constant(np.array([n], "float32")) for n in (beta / alpha, alpha))
    return ["v.activation = kHardSwish;", f"v.limit = {number(1 / alpha)};",
            f"v.offset = {offset};", f"v.factor = {factor};"]  # fmt: skip


def _numpy(region: Region) -> Any:
    """The dtype of the result in numpy; bfloat16 comes from ml_dtypes."""
    if region.result.dtype != "bfloat16":
        return region.result.dtype
    import ml_dtypes

    return ml_dtypes.bfloat16


BACKEND = Backend(
    "cudnn", (*patterns(), *attention.patterns(), *attention32.patterns()), convert,
    lambda: available(*LIBRARIES), {"relax.nn.conv2d": ("NHWC", "OHWI")}, cost, CUDNN.version,
    views=True, conversion=conversion,
)  # fmt: skip
