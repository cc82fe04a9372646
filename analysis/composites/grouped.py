"""Tensors that are quantised by group: a definition in Relax operators.

A *group* is a run of values along one axis that share a scale. Values of few bits are packed into
words along the same axis.
"""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax import op
from tvm.runtime import DataType

from ..support.tvm_compat import sym
from .composite import composite

DEQUANTIZE = "relax.nn.group_dequantize"


@composite(DEQUANTIZE)
def group_dequantize(
    data: Any,
    scale: Any,
    zero_points: Any = None,
    *,
    bits: int,
    group_size: int,
    axis: int = -1,
    size: int | None = None,
    offset: float = 0.0,
    interleave: int = 1,
) -> Any:
    """Return ``(value - offset - zero_point) * scale`` for packed values of few bits.

        i = y[axis]
        word = data[..., i // n, ...]                           with n = bits of a word // bits
        value = word >> (bits * (i % n)) & (2**bits - 1)
        out[y] = (cast(value) - zero_points[..., i // group_size, ...]) * scale[the same]

    All arithmetic is in the dtype of the scale.

    Args:
        data: The words, of an integer dtype; of a float8 dtype a word is one value.
        scale: One scale for each group, float16, bfloat16 or float32.
        zero_points: One zero point for each group, of any dtype; None for none.
        bits: The bits of a value.
        group_size: The values of a group.
        axis: The axis along which values are packed and grouped.
        size: The number of values along the axis if the last words are not full.
        offset: A zero point of all groups.
        interleave: The order in a word: value k is at position k % interleave * (n // interleave)
            + k // interleave.
    """
    dtype = str(scale.ty.dtype)
    values, size = _unpacked(data, bits, axis, size, interleave)
    out = op.astype(values, dtype)
    if offset:
        out = op.subtract(out, relax.const(offset, dtype))
    for name, operand in (("zero_points", zero_points), ("scale", scale)):
        if operand is not None:
            _check_groups(name, operand, data, axis, size, group_size)
    if zero_points is not None:
        zeros = op.astype(_spread(zero_points, group_size, axis, size), dtype)
        out = op.subtract(out, zeros)
    return op.multiply(out, _spread(scale, group_size, axis, size))


def _unpacked(data: Any, bits: int, axis: int, size: Any, interleave: int) -> tuple[Any, Any]:
    """The values in the words as integers of the words' dtype, and their number."""
    dtype = str(data.ty.dtype)
    width = DataType(dtype).bits
    per_word = width // bits if bits else 0
    if per_word * bits == 0 or (interleave and per_word % interleave):
        raise ValueError(f"{DEQUANTIZE}: {bits} bits, interleaved by {interleave}, in {dtype}")
    words = data.ty.shape[axis]
    full = words * per_word
    size = full if size is None else size
    if not _proved(size <= full):
        raise ValueError(f"{DEQUANTIZE}: {size} values of {bits} bits in {words} words of {dtype}")
    values = _spread(data, per_word, axis, size)
    if per_word > 1:
        place = op.floor_mod(op.arange(0, size, 1, "int64"), _int(per_word))
        if interleave > 1:
            place = op.add(
                op.multiply(op.floor_mod(place, _int(interleave)), _int(per_word // interleave)),
                op.floor_divide(place, _int(interleave)),
            )
        shift = op.astype(op.multiply(place, _int(bits)), dtype)
        values = op.right_shift(values, _along(shift, axis, data))
    if bits < width:
        values = op.bitwise_and(values, relax.const((1 << bits) - 1, dtype))
    return values, size


def _spread(groups: Any, length: int, axis: int, size: Any) -> Any:
    """The element of its group for each value along an axis."""
    shape = groups.ty.shape
    spread = groups if length == 1 else op.repeat(groups, length, axis)
    if _proved(shape[axis] * length == size):
        return spread
    return op.strided_slice(spread, [axis], [0], [size])


def _along(vector: Any, axis: int, like: Any) -> Any:
    """A vector that broadcasts along one axis of a tensor."""
    after = len(like.ty.shape) - 1 - axis % len(like.ty.shape)
    return op.expand_dims(vector, list(range(1, 1 + after))) if after else vector


def _check_groups(name: str, groups: Any, data: Any, axis: int, size: Any, length: int) -> None:
    shape, expected = list(groups.ty.shape), list(data.ty.shape)
    if len(shape) == len(expected) and _proved(size <= shape[axis] * length):
        expected[axis] = shape[axis]
        if all(_proved(a == b) for a, b in zip(shape, expected, strict=True)):
            return
    raise ValueError(
        f"{DEQUANTIZE}: {name} is {groups.ty}, expected {data.ty} with one element for each of "
        f"{size} / {length} groups on axis {axis}"
    )


def _int(value: int) -> Any:
    return relax.const(value, "int64")


def _proved(condition: Any) -> bool:
    return bool(sym.Analyzer().can_prove(condition))
