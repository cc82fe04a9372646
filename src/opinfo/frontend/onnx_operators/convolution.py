"""Convolutions, with padding that may depend on symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.conversion.half_types import accumulated
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import is_expr
from ..onnx_graph.values import Dim
from .shaping.padded_tensors import padded

LAYOUTS = {1: ("NCW", "OIW", "IOW"), 2: ("NCHW", "OIHW", "IOHW"), 3: ("NCDHW", "OIDHW", "IODHW")}


@dataclass(frozen=True)
class Window:
    """How a kernel moves: extents, strides and dilations of its axes, and padding of the data.

    Padding is a list for the starts and one for the ends of the axes; it may be symbolic.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[Dim]
    after: list[Dim]

    @property
    def is_static(self) -> bool:
        """Whether all paddings are numbers."""
        return not any(is_expr(p) for p in [*self.before, *self.after])

    @property
    def padding(self) -> list[int]:
        """The padding as Relax takes it."""
        return [*self.before, *self.after]

    @property
    def reach(self) -> list[int]:
        """The extents of the kernel including the gaps of its dilation."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]


def window(node: OnnxNode, kernel: Sequence[int], spatial: Sequence[Dim]) -> Window:
    """Return the window of a convolution or pool over data of the given sizes."""
    rank = len(spatial)
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    mode = node.text("auto_pad", "NOTSET")
    pads: list[Dim] = list(node.attr("pads") or [0] * (2 * rank))
    before, after = pads[:rank], pads[rank:]
    if mode == "VALID":
        before, after = [0] * rank, [0] * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [_same(node, n, k, s) for n, k, s in zip(spatial, reach, strides, strict=True)]
        halves = [node.arithmetic.floor_divide(t, 2) for t in totals]
        rests = [node.arithmetic.subtract(t, h) for t, h in zip(totals, halves, strict=True)]
        before, after = (halves, rests) if mode == "SAME_UPPER" else (rests, halves)
    elif mode not in ("NOTSET", ""):
        node.refuse(f"auto_pad is '{mode}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    return Window(list(kernel), strides, dilations, before, after)


def require_reach(node: OnnxNode, what: Window, spatial: Sequence[Dim]) -> None:
    """Refuse a kernel that exceeds the padded data, of which runtimes differ in the output's size.

    ONNX's formula gives none, ONNX Runtime and ONNX's type inference sometimes one element.
    """
    sizes = zip(spatial, what.before, what.after, what.reach, strict=True)
    for extent, first, last, reach in sizes:
        if not any(map(is_expr, (extent, first, last))) and 0 < extent < reach - first - last:
            size = extent + first + last
            node.refuse(f"its kernel reaches over {reach} elements, but padded data has {size}")


def _same(node: OnnxNode, extent: Dim, reach: int, stride: int) -> Dim:
    """Return the padding of an axis for which the output has ceil(extent / stride) elements."""
    arithmetic = node.arithmetic
    if stride == 1:
        return reach - 1
    outputs = arithmetic.floor_divide(arithmetic.add(extent, stride - 1), stride)
    covered = arithmetic.add(arithmetic.multiply(arithmetic.add(outputs, -1), stride), reach)
    return arithmetic.maximum(arithmetic.subtract(covered, extent), 0)


def prepadded(node: OnnxNode, data: Any, what: Window, number: float = 0.0) -> tuple[Any, Window]:
    """Pad the data itself where the padding is symbolic or negative."""
    if what.is_static and min(what.padding, default=0) >= 0:
        return data, what
    zeros = [0] * len(what.kernel)
    data = padded(node, data, [0, 0, *what.before], [0, 0, *what.after], number)
    return data, Window(what.kernel, what.strides, what.dilations, zeros, list(zeros))


@converts("Conv")
def conv(node: OnnxNode) -> Any:
    """Convolve in one to three dimensions."""
    result = convolved(node, node.tensor(0), node.tensor(1))
    return biased(node, result, 2)


def convolved(node: OnnxNode, data: Any, weights: Any, out_dtype: str | None = None) -> Any:
    """Return a convolution with the attributes of a node."""
    sizes, kernel = node.shape(0), node.shape(1)
    rank = len(sizes) - 2
    if rank not in LAYOUTS:
        node.refuse(f"a convolution in {rank} dimensions, expected 1 to 3")
    if any(is_expr(k) for k in kernel):
        node.refuse("weights of a symbolic size", *kernel)
    check_kernel(node, kernel)
    if is_expr(sizes[1]):  # the weights say how many channels there are
        sizes = [sizes[0], kernel[1] * int(node.attr("group", 1)), *sizes[2:]]
        data = node.cast_shape(data, sizes)
    what = window(node, kernel[2:], sizes[2:])
    require_reach(node, what, sizes[2:])
    data, what = prepadded(node, data, what)
    op = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]
    layout, kernel_layout, _ = LAYOUTS[rank]
    return node.emit(
        op(data, weights, what.strides, what.padding, what.dilations, node.attr("group", 1),
           layout, kernel_layout, out_dtype=out_dtype or accumulated(data))
    )  # fmt: skip


def check_kernel(node: OnnxNode, kernel: Sequence[Dim]) -> None:
    """Refuse a kernel_shape that is not that of the weights."""
    told = list(node.attr("kernel_shape") or kernel[2:])
    if told != list(kernel[2:]):
        node.refuse(f"kernel_shape is {told}, but the weights have {list(kernel[2:])}")


def biased(node: OnnxNode, result: Any, k: int) -> Any:
    """Add the bias of input `k`, one number a channel, if there is one."""
    if not node.has(k):
        return result
    bias = relax.op.reshape(node.tensor(k), [1, -1] + [1] * (result.ty.ndim - 2))
    return relax.op.add(result, bias)
