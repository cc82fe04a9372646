"""Transposed convolutions, by Relax's operators or as convolutions of spread data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, topi

from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.conversion.half_types import accumulated
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import is_expr
from ..onnx_graph.values import Dim, TensorValue, constant
from .convolution import LAYOUTS, Window, biased, check_kernel
from .shaping.padded_tensors import padded


@converts("ConvTranspose")
def conv_transpose(node: OnnxNode) -> Any:
    """Convolve transposed, in one to three dimensions."""
    sizes, kernel = node.shape(0), node.shape(1)
    rank = len(sizes) - 2
    if rank not in LAYOUTS:
        node.refuse(f"a convolution in {rank} dimensions, expected 1 to 3")
    check_kernel(node, kernel)
    data = node.tensor(0)
    if is_expr(sizes[1]):  # the weights say how many channels there are
        data = node.cast_shape(data, [sizes[0], kernel[0], *sizes[2:]])
    strides = list(node.attr("strides") or [1] * rank)
    dilations = list(node.attr("dilations") or [1] * rank)
    extra = list(node.attr("output_padding") or [0] * rank)
    before, after = _pads(node, sizes[2:], kernel[2:], strides, dilations, extra)
    what = Window(list(kernel[2:]), strides, dilations, before, after)
    result = _transposed(node, data, node.value(1), what, extra, int(node.attr("group", 1)))
    return biased(node, result, 2)


@converts("Col2Im")
def col2im(node: OnnxNode) -> Any:
    """Add up blocks of an image, as a transposed convolution with kernels of one element."""
    image = [int(v) for v in node.array(1, "image_shape").reshape(-1)]
    block = [int(v) for v in node.array(2, "block_shape").reshape(-1)]
    rank, (batch, depth, _) = len(image), node.shape(0)
    size = int(np.prod(block))
    if rank not in LAYOUTS or len(block) != rank:
        node.refuse(f"an image in {rank} dimensions and blocks in {len(block)}, expected 1 to 3")
    if is_expr(depth):
        node.refuse("channels of a symbolic number", depth)
    strides, pads = list(node.attr("strides") or [1] * rank), list(node.attr("pads") or [])
    pads, dilations = pads or [0] * (2 * rank), list(node.attr("dilations") or [1] * rank)
    if min(*image, *block, *strides, *dilations) < 1 or depth % size:
        got = f"an image of {image}, blocks of {block}, strides of {strides}, {depth} channels"
        node.refuse(f"{got}, expected numbers from 1, and channels for whole blocks")
    what = Window(block, strides, dilations, pads[:rank], pads[rank:])
    spaces = [image[k] + pads[k] + pads[rank + k] - what.reach[k] for k in range(rank)]
    if min(spaces) < 0:
        node.refuse(f"blocks that reach over {what.reach} elements, expected at most {image}")
    counts = [space // stride + 1 for space, stride in zip(spaces, strides, strict=True)]
    node.check_shape(0, [batch, depth, int(np.prod(counts))])
    data = node.emit(relax.op.reshape(node.tensor(0), [batch, depth, *counts]))
    kernel = np.tile(np.eye(size).reshape(size, 1, *block), (depth // size, *[1] * (rank + 1)))
    extra = [space % stride for space, stride in zip(spaces, strides, strict=True)]
    weights = constant(kernel.astype(node.dtype(0)))
    return _transposed(node, data, weights, what, extra, depth // size)


def _transposed(
    node: OnnxNode, data: Any, weights: TensorValue, what: Window, extra: list[int], group: int
) -> Any:
    """Return a transposed convolution.

    Args:
        node: The node.
        data: The tensor, channels first.
        weights: Those for each channel of the data: channels, channels of a group's result, kernel.
        what: The window; its padding is cropped from the result.
        extra: Elements to add at the ends of the result.
        group: The number of groups.
    """
    rank = len(what.kernel)
    narrow = all(a < b for a, b in zip(extra, what.strides, strict=True))
    if any(d != 1 for d in what.dilations) or min(what.padding) < 0 or not narrow:
        return _by_convolution(node, data, weights, what, extra, group)
    op = (relax.op.nn.conv1d_transpose, relax.op.nn.conv2d_transpose,
          relax.op.nn.conv3d_transpose)[rank - 1]  # fmt: skip
    layout, _, kernel_layout = LAYOUTS[rank]
    return node.emit(op(data, node.graph.tensor(weights), what.strides, what.padding, extra,
                        what.dilations, group, layout, kernel_layout,
                        out_dtype=accumulated(data)))  # fmt: skip


def _by_convolution(
    node: OnnxNode, data: Any, weights: TensorValue, what: Window, extra: list[int], group: int
) -> Any:
    """Convolve the data, with zeros between its elements for the strides, by the reversed kernel.

    TVM's transposed convolutions compute the same, but have neither dilations nor negative padding.
    """
    rank = len(what.kernel)
    if any(is_expr(k) for k in what.kernel):
        node.refuse("weights of a symbolic size", *what.kernel)
    if any(stride > 1 for stride in what.strides):
        data = node.builder.emit_te(topi.nn.dilate, data, [1, 1, *what.strides])
    before = [r - 1 - p for r, p in zip(what.reach, what.before, strict=True)]
    after = [r - 1 - p + e for r, p, e in zip(what.reach, what.after, extra, strict=True)]
    data = padded(node, data, [0, 0, *before], [0, 0, *after], 0.0)
    op = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]
    layout, kernel_layout, _ = LAYOUTS[rank]
    return node.emit(op(data, _reversed(node, weights, group), 1, 0, what.dilations, group, layout,
                        kernel_layout, out_dtype=accumulated(data)))  # fmt: skip


def _reversed(node: OnnxNode, weights: TensorValue, group: int) -> Any:
    """Return the weights of a convolution: channels of input and result change places, kernels
    are reversed."""
    if weights.is_constant and weights.elements is not None:
        array = weights.elements
        channels, results, *kernel = array.shape
        parts = array.reshape(group, channels // group, results, *kernel).swapaxes(1, 2)
        whole = np.flip(parts, tuple(range(3, 3 + len(kernel))))
        shape = (group * results, channels // group, *kernel)
        return relax.const(np.ascontiguousarray(whole.reshape(shape)), weights.dtype)
    data = node.graph.tensor(weights)
    channels, results, *kernel = (int(d) for d in data.ty.shape.values)
    order = [0, 2, 1, *range(3, 3 + len(kernel))]
    data = relax.op.reshape(data, [group, channels // group, results, *kernel])
    data = node.emit(relax.op.permute_dims(node.emit(data), order))
    data = relax.op.reshape(data, [group * results, channels // group, *kernel])
    for axis in range(2, 2 + len(kernel)):
        data = relax.op.flip(node.emit(data), axis)
    return node.emit(data)


def _pads(
    node: OnnxNode, spatial: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], extra: list[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Return the padding that a transposed convolution crops, at the starts and the ends.

    Where a requested size is larger than the result, ``extra`` grows: rows of zeros at the end. By
    ONNX's type inference, and in ONNX Runtime, the automatic size only shrinks.
    """
    rank = len(spatial)
    mode = node.text("auto_pad", "NOTSET")
    pads = list(node.attr("pads") or [0] * (2 * rank))
    shape = node.attr("output_shape")
    if mode == "VALID" and shape is None:
        return [0] * rank, [0] * rank
    if mode in ("NOTSET", "") and shape is None:
        return pads[:rank], pads[rank:]
    before, after = [], []
    for k in range(rank):
        if is_expr(kernel[k]):
            node.refuse("weights of a symbolic size", kernel[k])
        reach = (kernel[k] - 1) * dilations[k] + 1
        if shape is None:
            total = reach + extra[k] - strides[k]
        elif is_expr(spatial[k]):
            node.refuse("output_shape with a symbolic size", spatial[k])
        else:
            total = strides[k] * (spatial[k] - 1) + extra[k] + reach - list(shape)[-rank:][k]
        if shape is not None:
            extra[k] += max(-total, 0)
        total = max(total, 0)
        half = total // 2
        first = half if mode == "SAME_UPPER" else total - half
        before.append(first)
        after.append(total - first)
    return before, after
