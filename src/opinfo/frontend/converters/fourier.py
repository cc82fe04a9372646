"""Fourier transforms of real numbers, as products with a constant matrix.

Before: ``_fft_r2c(x, [-1], 0, True)`` of n numbers; after: ``matmul(x, w)`` with the pairs
``w[t, k] = (cos(2 pi t k / n), -sin(2 pi t k / n))`` for ``k <= n // 2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

from .nodes.arguments import arguments, positive

#: The most numbers of a transform: its matrix has their square.
_LONGEST = 4096


def real_transform(importer: Any, node: Any) -> Any:
    """Convert _fft_r2c along one axis.

    Raises:
        NotImplementedError: It has several axes, or the extent is symbolic or long.
    """
    args, emit = arguments(importer, node), importer.block_builder.emit
    x = args["self"]
    if len(args["dim"]) != 1:
        raise NotImplementedError(f"it transforms {len(args['dim'])} axes, expected 1; use rfft")
    axis = positive(args["dim"][0], x.ty.ndim)
    extent = x.ty.shape[axis]
    if not isinstance(extent, tirx.IntImm) or int(extent) > _LONGEST:
        raise NotImplementedError(f"it transforms {extent} numbers, expected a static number up to "
                                  f"{_LONGEST}; make the size static")  # fmt: skip
    rest = [k for k in range(x.ty.ndim) if k != axis]
    data = x if axis == x.ty.ndim - 1 else emit(relax.op.permute_dims(x, [*rest, axis]))
    matrix = _matrix(int(extent), args["normalization"], args["onesided"])
    count = matrix.shape[1]
    flat = relax.const(matrix.reshape(int(extent), 2 * count).astype(str(x.ty.dtype)))
    product = emit(relax.op.matmul(data, flat))
    shape = [x.ty.shape[k] for k in rest]
    pairs = emit(relax.op.reshape(product, relax.ShapeExpr([*shape, count, 2])))
    order = [*rest, axis]
    back = [order.index(k) for k in range(len(order))]
    return pairs if order == sorted(order) else emit(
        relax.op.permute_dims(pairs, [*back, len(order)])
    )  # fmt: skip


def _matrix(n: int, normalization: int, onesided: bool) -> np.ndarray:
    """Return the pairs of a transform, of shape (n, k, 2); normalised by 1, the root of n, or n."""
    count = n // 2 + 1 if onesided else n
    turns = np.outer(np.arange(n), np.arange(count)) % n * (2 * np.pi / n)
    scale = (1.0, n**-0.5, 1.0 / n)[normalization]
    return np.stack([np.cos(turns), -np.sin(turns)], -1) * scale
