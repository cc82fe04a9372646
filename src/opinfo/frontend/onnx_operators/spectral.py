"""Fourier transforms, as products with matrices of cosines and sines."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import is_expr
from .shaping.padded_tensors import padded

#: Limit on the elements of a matrix.
MOST = 1 << 24


@converts("DFT")
def dft(node: OnnxNode) -> Any:
    """Transform an axis of real or complex numbers; complex ones have a last axis of two."""
    sizes = node.shape(0)
    rank, parts = len(sizes), _parts(node, sizes[-1])
    axis = _axis(node, rank)
    inverse, onesided = (bool(node.attr(name, 0)) for name in ("inverse", "onesided"))
    if is_expr(sizes[axis]) and not node.has(1):
        node.refuse("a transform of a symbolic size", sizes[axis])
    real = onesided and inverse
    whole = 2 * (sizes[axis] - 1) if real and not node.has(1) else sizes[axis]
    extent = _positive(node, 1, "dft_length") if node.has(1) else whole
    if onesided and parts != (2 if inverse else 1):
        node.refuse(f"onesided is 1 with {parts} numbers an element, expected 1, or 2 for the "
                    "inverse")  # fmt: skip
    count = extent // 2 + 1 if real else extent
    order = [k for k in range(rank - 1) if k != axis]
    data = node.emit(relax.op.permute_dims(node.tensor(0), [*order, axis, rank - 1]))
    data = _of_extent(node, data, rank - 2, sizes[axis], count)
    outer = [sizes[k] for k in order]
    data = node.emit(relax.op.reshape(data, [*outer, count * parts]))
    matrix = _half_waves(node, extent) if real else waves(node, extent, parts, onesided, inverse)
    result = node.emit(relax.op.matmul(data, relax.const(matrix, node.dtype(0))))
    last = 1 if real else 2
    result = node.emit(relax.op.reshape(result, [*outer, matrix.shape[1] // last, last]))
    places = [*order, axis, rank - 1]
    return relax.op.permute_dims(result, [places.index(k) for k in range(rank)])


@converts("STFT")
def stft(node: OnnxNode) -> Any:
    """Transform windows of a signal, as a convolution whose stride is the step of the windows."""
    sizes = node.shape(0)
    if len(sizes) != 3:
        node.refuse(f"the signal has {len(sizes)} dimensions, expected 3")
    parts, step = _parts(node, sizes[2]), _positive(node, 1, "frame_step")
    if node.has(3):
        extent = _positive(node, 3, "frame_length")
    elif node.has(2) and not is_expr(node.shape(2)[0]):
        extent = int(node.shape(2)[0])
    else:
        node.refuse("neither frame_length nor a window of a static size is given")
    onesided = bool(node.attr("onesided", 1))
    if onesided and parts == 2:
        node.refuse("onesided is 1 with complex numbers, expected 0")
    if node.has(2) and node.shape(2) != [extent]:
        node.refuse(f"the window has the shape {node.shape(2)}, expected {extent} elements")
    if not is_expr(sizes[1]) and sizes[1] < extent:
        node.refuse(f"frames of {extent} elements, expected at most the signal's {sizes[1]}")
    matrix = waves(node, extent, parts, onesided, False)
    count = matrix.shape[1]
    kernel = matrix.reshape(extent, parts, count).transpose(2, 1, 0)
    weights = relax.const(np.ascontiguousarray(kernel), node.dtype(0))
    if node.has(2):
        weights = node.emit(relax.op.multiply(weights, node.tensor(2)))
    data = node.emit(relax.op.permute_dims(node.tensor(0), [0, 2, 1]))
    frames = node.emit(relax.op.nn.conv1d(data, weights, step))
    frames = node.emit(relax.op.permute_dims(frames, [0, 2, 1]))
    batch, number = (frames.ty.shape.values[k] for k in range(2))
    return relax.op.reshape(frames, [batch, number, count // 2, 2])


def waves(
    node: OnnxNode, extent: int, parts: int, onesided: bool, inverse: bool
) -> np.ndarray[Any, Any]:
    """Return the matrix from the elements of a signal to those of its transform.

    Rows and columns are pairs of a real and an imaginary part; a real signal has rows of one.
    """
    count = extent // 2 + 1 if onesided else extent
    if extent < 1 or 2 * extent * parts * count > MOST:
        node.refuse(f"a transform of {extent} elements, expected 1 to {int((MOST / 4) ** 0.5)}")
    # Whole turns are taken off before the angle is rounded.
    turns = np.outer(np.arange(extent), np.arange(count)) % extent / extent
    real, imaginary = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)
    if inverse:
        real, imaginary = real / extent, -imaginary / extent
    matrix = np.empty((extent, parts, count, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = real, -imaginary
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = imaginary, real
    return matrix.reshape(extent * parts, count * 2).astype(node.dtype(0))


def _half_waves(node: OnnxNode, extent: int) -> np.ndarray[Any, Any]:
    """Return the matrix from half of a spectrum, in complex numbers, to the elements of a signal.

    The other half is its conjugate, so all but the ends of a half count twice.
    """
    count = extent // 2 + 1
    if extent < 1 or 2 * extent * count > MOST:
        node.refuse(f"a transform of {extent} elements, expected 1 to {int(MOST**0.5)}")
    turns = np.outer(np.arange(count), np.arange(extent)) % extent / extent
    times = np.where(2 * np.arange(count) % extent == 0, 1, 2)[:, None] / extent
    matrix = np.stack([times * np.cos(2 * np.pi * turns), -times * np.sin(2 * np.pi * turns)], 1)
    return matrix.reshape(2 * count, extent).astype(node.dtype(0))


def _positive(node: OnnxNode, k: int, what: str) -> int:
    """The number that input `k` holds, which is at least 1."""
    values = node.array(k, what).reshape(-1)
    if values.size != 1 or values[0] < 1:
        node.refuse(f"{what} is {values[:4].tolist()}, expected one number from 1")
    return int(values[0])


def _parts(node: OnnxNode, extent: Any) -> int:
    if is_expr(extent) or extent not in (1, 2):
        node.refuse(f"the last axis has {extent} elements, expected 1 or 2")
    return int(extent)


def _axis(node: OnnxNode, rank: int) -> int:
    """The axis that is transformed, an attribute before operator set 20."""
    if node.opset < 20:
        axis = int(node.attr("axis", 1))
    else:
        axis = int(node.array(2, "axis").reshape(-1)[0]) if node.has(2) else -2
    if not -rank <= axis < rank or axis % rank == rank - 1:
        node.refuse(f"axis is {axis}, expected one before the last of {rank}")
    return axis % rank


def _of_extent(node: OnnxNode, data: Any, axis: int, given: Any, extent: int) -> Any:
    """The first elements along an axis, or zeros after its last ones."""
    if is_expr(given):
        node.refuse("dft_length of an axis of symbolic size", given)
    after: list[Any] = [0] * (axis + 2)
    after[axis] = extent - given
    return padded(node, data, [0] * len(after), after, 0.0)
