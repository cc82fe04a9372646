"""Norms of sums, defined in Relax operators."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.relax import op

from .defining.composite import composite

ADD_RMS_NORM = "relax.nn.add_rms_norm"


@composite(ADD_RMS_NORM)
def add_rms_norm(
    data: Any, residual: Any, weight: Any, *, axes: Sequence[int], epsilon: float = 1e-5
) -> Any:
    """Return ``(rms_norm(data + residual, weight), data + residual)``.

        norm = sum * rsqrt(total of sum ** 2 * (1 / count) + epsilon) * weight

    The sum has the dtype of the operands. The norm is of float32, then converted to that dtype.

    Args:
        data: A tensor of floats, whose extents along the axes are numbers.
        residual: A tensor of the same type.
        weight: The factors, of the shape of the axes and the same dtype.
        axes: The last axes, over which squares are averaged.
        epsilon: What is added to the average of the squares.
    """
    shape, rank, dtype = data.ty.shape, len(data.ty.shape), str(data.ty.dtype)
    dims = sorted(int(a) % rank for a in axes)
    if len(residual.ty.shape) != rank or {str(residual.ty.dtype), str(weight.ty.dtype)} != {dtype}:
        raise ValueError(f"{ADD_RMS_NORM}: data {data.ty}, {residual.ty}, weight {weight.ty}")
    if not dims or dims != list(range(rank - len(dims), rank)) or len(weight.ty.shape) != len(dims):
        raise ValueError(f"{ADD_RMS_NORM}: axes {list(axes)} of {data.ty}, weight {weight.ty}")
    if not all(isinstance(shape[d], tirx.IntImm) for d in dims):
        raise ValueError(f"{ADD_RMS_NORM}: an unknown number of elements along {list(axes)}")
    count = prod(int(shape[d]) for d in dims)
    total = op.add(data, residual)
    x, scale = op.astype(total, "float32"), op.astype(weight, "float32")
    squares = op.sum(op.multiply(x, x), dims, keepdims=True)
    average = op.multiply(squares, tirx.const(1.0 / count, "float32"))
    root = op.rsqrt(op.add(average, tirx.const(float(epsilon), "float32")))
    return op.astype(op.multiply(op.multiply(x, root), scale), dtype), total
