"""Fourier transforms, as products with constant matrices, one for each axis.

Before: ``_fft_r2c(x, [-1], 0, True)`` of n numbers; after: ``matmul(x, w)`` with the pairs
``w[t, k] = (cos(2 pi t k / n), -sin(2 pi t k / n))`` for ``k <= n // 2``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from .nodes.arguments import arguments, positive

#: The most numbers of a transform: its matrix has their square.
_LONGEST = 4096
Matrix = np.ndarray[Any, Any]


def real_transform(importer: Any, node: Any) -> Any:
    """Convert _fft_r2c: real numbers become pairs along the last of its axes.

    Raises:
        NotImplementedError: An extent is symbolic or long.
    """
    args = arguments(importer, node)
    x, rank = args["self"], node.args[0].meta["val"].ndim
    *others, last = _axes(args["dim"], rank)
    extents = _extents(x, [*others, last])
    scale = _scale(args["normalization"], extents)
    count = extents[-1] // 2 + 1 if args["onesided"] else extents[-1]
    matrix = _waves(extents[-1], -1)[:, 0, :count] * scale
    pairs = importer.block_builder.emit(relax.op.expand_dims(x, [rank]))
    pairs = _product(importer, pairs, last, matrix[:, None])
    return _transformed(importer, pairs, others, -1)


def complex_transform(importer: Any, node: Any) -> Any:
    """Convert _fft_c2c: pairs become pairs along each of its axes.

    Raises:
        NotImplementedError: An extent is symbolic or long.
    """
    args = arguments(importer, node)
    x = args["self"]
    axes = _axes(args["dim"], x.ty.ndim - 1)
    scale = _scale(args["normalization"], _extents(x, axes))
    return _transformed(importer, x, axes, -1 if args["forward"] else 1, scale)


def inverse_real_transform(importer: Any, node: Any) -> Any:
    """Convert _fft_c2r: pairs of half of a spectrum become real numbers along the last axis.

    The other half is its conjugate, so all but the ends of a half count twice.

    Raises:
        NotImplementedError: An extent is symbolic or long.
    """
    args = arguments(importer, node)
    x, size = args["self"], args["last_dim_size"]
    rank = x.ty.ndim - 1
    *others, last = _axes(args["dim"], rank)
    extents = [*_extents(x, others), *_numbers([size])]
    pairs = _transformed(importer, x, others, 1)
    times = np.where(2 * np.arange(size // 2 + 1) % size == 0, 1, 2)[:, None, None, None]
    matrix = _waves(size, 1)[: size // 2 + 1, :, :, :1] * times
    matrix = matrix * _scale(args["normalization"], extents)
    real = _product(importer, pairs, last, matrix)
    return importer.block_builder.emit(relax.op.squeeze(real, [rank]))


def _axes(axes: Sequence[int], rank: int) -> list[int]:
    return [positive(axis, rank) for axis in axes]


def _extents(x: Any, axes: Sequence[int]) -> list[int]:
    return _numbers([x.ty.shape[axis] for axis in axes])


def _numbers(extents: Sequence[Any]) -> list[int]:
    for extent in extents:
        if not isinstance(extent, (int, tirx.IntImm)) or int(extent) > _LONGEST:
            raise NotImplementedError(f"it transforms {extent} numbers, expected a static number "
                                      f"up to {_LONGEST}; make the size static")  # fmt: skip
    return [int(extent) for extent in extents]


def _scale(normalization: int, extents: Sequence[int]) -> float:
    """Return 1, or the inverse of the number of elements or of its root."""
    return float((1.0, math.prod(extents) ** -0.5, 1.0 / math.prod(extents))[normalization])


def _transformed(
    importer: Any, pairs: Any, axes: Sequence[int], sign: int, scale: float = 1.0
) -> Any:
    """Return pairs that are transformed along each axis."""
    for k, axis in enumerate(axes):
        matrix = _waves(_extents(pairs, [axis])[0], sign)
        pairs = _product(importer, pairs, axis, matrix if k else matrix * scale)
    return pairs


def _waves(n: int, sign: int) -> Matrix:
    """Return the matrix of exp(sign * 2 pi i t k / n), of shape (n, 2, n, 2), of pairs to pairs."""
    turns = np.outer(np.arange(n), np.arange(n)) % n * (2 * np.pi / n)
    real, imaginary = np.cos(turns), sign * np.sin(turns)
    rows = [np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)]
    return np.stack(rows, 1)


def _product(importer: Any, pairs: Any, axis: int, matrix: Matrix) -> Any:
    """Return the product of an axis and the last axis with a matrix (n, p, k, q).

    Args:
        importer: The importer.
        pairs: A tensor with n elements along the axis, and p behind all axes.
        axis: The axis.
        matrix: The matrix.

    Returns:
        The tensor with k elements along the axis, and q behind all axes.
    """
    emit, rank = importer.block_builder.emit, pairs.ty.ndim - 1
    n, p, count, q = matrix.shape
    rest = [k for k in range(rank) if k != axis]
    order = [*rest, axis, rank]
    data = pairs if order == sorted(order) else emit(relax.op.permute_dims(pairs, order))
    outer = [pairs.ty.shape[k] for k in rest]
    data = emit(relax.op.reshape(data, relax.ShapeExpr([*outer, n * p])))
    flat = relax.const(matrix.reshape(n * p, count * q), str(pairs.ty.dtype))
    result = emit(relax.op.matmul(data, flat))
    result = emit(relax.op.reshape(result, relax.ShapeExpr([*outer, count, q])))
    if order == sorted(order):
        return result
    return emit(relax.op.permute_dims(result, [order.index(k) for k in range(rank + 1)]))
