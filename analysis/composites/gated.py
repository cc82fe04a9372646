"""Gated activations (SwiGLU and its relatives), defined in Relax operators.

Source: Shazeer, GLU Variants Improve Transformer, arXiv 2002.05202.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx
from tvm.relax import op

from .defining.composite import composite

GATED = "relax.nn.gated_activation"
ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "silu": op.nn.silu, "gelu": op.nn.gelu, "gelu_tanh": op.nn.gelu_tanh, "sigmoid": op.sigmoid,
    "relu": op.nn.relu, "tanh": op.tanh,
}  # fmt: skip


@composite(GATED)
def gated_activation(
    data: Any, *, activation: str, axis: int = -1, gate: int = 0, paired: bool = False
) -> Any:
    """Return ``activation(a) * b``, where a and b are the two halves of the data along an axis.

    Args:
        data: A tensor of floats with an even number of elements along the axis.
        activation: A key of `ACTIVATIONS`.
        axis: The axis, whose extent is halved.
        gate: Which half is activated, 0 or 1.
        paired: Whether the halves are the elements at even and at odd places.
    """
    rank = len(data.ty.shape)
    if activation not in ACTIVATIONS or gate not in (0, 1) or not -rank <= axis < rank:
        raise ValueError(f"{GATED}: activation {activation}, gate {gate}, axis {axis} of {data.ty}")
    extent = data.ty.shape[axis % rank]
    if not isinstance(extent, tirx.IntImm) or int(extent) % 2:
        raise ValueError(f"{GATED}: {extent} elements along axis {axis}, expected an even number")
    size = int(extent)
    if paired:
        halves = [op.strided_slice(data, [axis], [k], [size], [2]) for k in (0, 1)]
    else:
        half = size // 2
        halves = [op.strided_slice(data, [axis], [k], [k + half]) for k in (0, half)]
    return op.multiply(ACTIVATIONS[activation](halves[gate]), halves[1 - gate])
