"""How the results of dequantisations are used: moved, multiplied, gathered."""

from __future__ import annotations

from ...analysis.composites.grouped import DEQUANTIZE as GROUPED
from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...layout.graph.relax_graph import Op, Value
from ..matching.lowered import Lowered
from .integers import DEQUANTIZE, SMALL

#: The axis of the scales of a dequantize: none if it has one scale, `ANY` if it is not known.
ANY = -1


def scale_axis(lowered: Lowered, op: Op) -> int | None:
    """The axis along which the scales of a dequantize vary, from the front."""
    scales = op.values[1]
    if scales is None or all(e == 1 for e in scales.shape):
        return None
    info = lowered.infos[op].operator
    rank = len(op.outputs[0].shape)
    axis = None if info is None else info.attrs.get("axis")
    return int(axis) % rank if isinstance(axis, int) and rank else ANY


def is_exact(lowered: Lowered, value: Value, axis: int | None) -> bool:
    """Whether runtimes compute with a dequantised constant as with its real numbers.

    In a product with a tensor that is not quantised, ONNX Runtime rounds the tensor to 8 bits; with
    scales along the axis that is summed, OpenVINO takes the first scale for all.
    """
    for op in value.uses:
        if is_named(lowered, op, "relax.matmul", TRANSPOSED_MATMUL):
            place = next(k for k, v in enumerate(op.values) if v is value)
            other = op.values[1 - place]
            if other is None or other.producer is None:
                return False
            if not is_named(lowered, unmoved(lowered, other.producer), DEQUANTIZE):
                return False
            summed = len(value.shape) - (2 if place else 1)
            plain = is_named(lowered, op, "relax.matmul")
            if axis is not None and (axis in (ANY, summed) or not plain):
                return False
        elif is_named(lowered, op, "relax.permute_dims", "relax.reshape", "relax.astype"):
            if not is_exact(lowered, op.outputs[0], _moved(lowered, op, axis)):
                return False
    return True


def _moved(lowered: Lowered, op: Op, axis: int | None) -> int | None:
    """The axis of scales after a move."""
    if axis is None or is_named(lowered, op, "relax.astype"):
        return axis
    info = lowered.infos[op].operator
    axes = info.attrs.get("axes") if info is not None else None
    if not is_named(lowered, op, "relax.permute_dims") or axis == ANY:
        return ANY
    order = range(len(op.outputs[0].shape))[::-1] if axes is None else [int(a) for a in axes]
    return list(order).index(axis)


def unmoved(lowered: Lowered, op: Op) -> Op:
    """The op before casts and moves of its result."""
    while is_named(lowered, op, "relax.astype", "relax.permute_dims", "relax.reshape"):
        value = op.values[0]
        if value is None or value.producer is None:
            break
        op = value.producer
    return op


def has_small_integers(lowered: Lowered, op: Op) -> bool:
    """Whether an op dequantizes integers of 8 bits or less."""
    value = op.values[0]
    small = value is not None and value.dtype in SMALL
    return is_named(lowered, op, GROUPED) or (small and is_named(lowered, op, DEQUANTIZE))


def is_gathered(lowered: Lowered, op: Op) -> bool:
    """Whether only gathers read what an op dequantizes by group, so that few rows are computed."""
    if (
        not is_named(lowered, op, GROUPED)
        or len(op.outputs) != 1
        or op.outputs[0].pinned is not None
    ):
        return False
    (value,) = op.outputs
    return bool(value.uses) and all(
        is_named(lowered, u, "relax.take") and u.values[0] is value for u in value.uses
    )


def is_named(lowered: Lowered, op: Op, *names: str) -> bool:
    """Whether an op is one of these operators, by default a dequantize of either kind."""
    info = lowered.infos[op].operator
    return info is not None and info.name in (names or (DEQUANTIZE, GROUPED))
