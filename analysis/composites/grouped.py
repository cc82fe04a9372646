"""Tensors that are quantised by group, defined in Relax operators.

A *group* is a run of values along one axis that share a scale. Values of few bits are packed into
words along the same axis.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op
from tvm.runtime import DataType

from ..support.tvm_compat import sym
from .defining.composite import composite
from .tir_round import tir_round

DEQUANTIZE, QUANTIZE = "relax.nn.group_dequantize", "relax.nn.group_quantize"


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
    packed_axis: int | None = None,
    zero_points_axis: int | None = None,
) -> Any:
    """Return ``(value - offset - zero_point) * scale`` for packed values of few bits.

        i, g = y[packed_axis], y[axis] // group_size
        word = data[..., i // n, ...]                           with n = bits of a word // bits
        value = word >> (bits * (i % n)) & (2**bits - 1)
        out[y] = (cast(value) - offset - cast(zero_points[..., g, ...])) * scale[..., g, ...]

    The values are cast to the dtype of the scale, in which all arithmetic is.

    Args:
        data: The words, of an integer dtype; or values of a float8 dtype.
        scale: One scale for each group: float16, bfloat16 or float32.
        zero_points: One zero point for each group, of any dtype; None for none.
        bits: The bits of a value.
        group_size: The values of a group.
        axis: The axis of the groups.
        size: The number of values along ``packed_axis`` if the last words are not full.
        offset: A zero point of all groups.
        interleave: The order in a word: value k is at position ``k % interleave * (n //
            interleave) + k // interleave``.
        packed_axis: The axis along which values are packed into words; None for ``axis``.
        zero_points_axis: The axis along which zero points are packed as the values are; None if
            they are not packed.
    """
    kind, dtype = str(data.ty.dtype), str(scale.ty.dtype)
    if "int" not in kind and "float8" not in kind:
        raise ValueError(f"{DEQUANTIZE}: data of {kind}, expected integers or float8")
    packed_axis = axis if packed_axis is None else packed_axis
    rank = len(data.ty.shape)
    values = _unpacked(data, bits, packed_axis, size, interleave)
    shape = list(data.ty.shape)
    shape[packed_axis] = _full(data, bits, packed_axis) if size is None else size
    zeros = zero_points
    if zeros is not None and zero_points_axis is not None:
        groups = scale.ty.shape[zero_points_axis]
        zeros = _unpacked(zeros, bits, zero_points_axis, groups, interleave)
    out = op.astype(values, dtype)
    if offset:
        out = op.subtract(out, relax.const(offset, dtype))
    _check_groups("scale", scale.ty.shape, shape, axis % rank, group_size)
    if zeros is not None:
        if zero_points_axis is None:
            _check_groups("zero_points", zeros.ty.shape, shape, axis % rank, group_size)
        zeros = _spread(zeros, scale.ty.shape, group_size, axis, shape[axis])
        out = op.subtract(out, op.astype(zeros, dtype))
    return op.multiply(out, _spread(scale, scale.ty.shape, group_size, axis, shape[axis]))


@composite(QUANTIZE)
def group_quantize(
    data: Any, *, bits: int, group_size: int, axis: int = -1, dtype: str = "uint32"
) -> Any:
    """Return the packed values and the scales of groups, symmetric around zero.

        m = 2**(bits - 1) - 1
        scale[g] = max(abs(data[i]) for i in group g) / m
        value[i] = min(max(round(data[i] / scale[i // group_size] + m), 0), 2 * m)
        words[w] = sum(value[w * n + k] << bits * k for k < n)   with n = bits of a word // bits

    It rounds as ``tirx.round``. A last group or word that is not full has no further values;
    there are words for whole groups. `group_dequantize` with ``offset=m`` inverts it.

    Args:
        data: Float values of any shape.
        bits: The bits of a value, at least 2.
        group_size: The values of a group, a multiple of those of a word.
        axis: The axis of the groups and words.
        dtype: The dtype of the words, an unsigned integer.
    """
    kind, shape, axis = str(data.ty.dtype), list(data.ty.shape), axis % len(data.ty.shape)
    size, per_word = shape[axis], DataType(dtype).bits // max(bits, 1)
    if bits < 2 or not per_word or group_size < 1 or group_size % per_word:
        raise ValueError(f"{QUANTIZE}: groups of {group_size} values of {bits} bits in {dtype}")
    if not isinstance(size, tirx.IntImm):
        raise ValueError(f"{QUANTIZE}: an unknown number of values ({size}) on axis {axis}")
    count, middle = -(-int(size) // group_size), (1 << bits - 1) - 1
    lowest = tirx.min_value(kind).value
    largest = op.max(_split(op.abs(data), shape, axis, count, group_size, lowest), [axis + 1])
    scale = op.divide(largest, relax.const(middle, kind))
    scaled = op.divide(data, _spread(scale, [*shape[:axis], count], group_size, axis, size))
    values = tir_round(op.add(scaled, relax.const(middle, kind)))
    values = op.minimum(op.maximum(values, relax.const(0, kind)), relax.const(2 * middle, kind))
    place = op.floor_mod(op.arange(0, size, 1, "int64"), _int(per_word))
    shift = _along(op.astype(op.multiply(place, _int(bits)), dtype), axis, len(shape))
    values = op.left_shift(op.astype(values, dtype), shift)
    words = count * group_size // per_word
    return op.sum(_split(values, shape, axis, words, per_word, 0), [axis + 1]), scale


def _along(vector: Any, axis: int, rank: int) -> Any:
    """A vector that broadcasts along one axis of a tensor."""
    trailing = list(range(1, rank - axis % rank))
    return op.expand_dims(vector, trailing) if trailing else vector


def _split(values: Any, shape: Any, axis: int, count: int, length: int, fill: float) -> Any:
    """The values along an axis as ``count`` runs of a length, filled up at the end."""
    missing = count * length - int(shape[axis])
    if missing:
        width = [0] * (2 * len(shape))
        width[2 * axis + 1] = missing
        values = op.nn.pad(values, width, "constant", fill)
    return op.reshape(values, [*shape[:axis], count, length, *shape[axis + 1 :]])


def _full(words: Any, bits: int, axis: int) -> Any:
    """The number of values in words along an axis."""
    width = DataType(str(words.ty.dtype)).bits
    if not 0 < bits <= width:
        raise ValueError(f"{DEQUANTIZE}: {bits} bits in {words.ty.dtype}")
    return words.ty.shape[axis] * (width // bits)


def _unpacked(words: Any, bits: int, axis: int, size: Any, interleave: int) -> Any:
    """The values in words, as integers of the words' dtype."""
    dtype = str(words.ty.dtype)
    width = DataType(dtype).bits
    full = _full(words, bits, axis)
    size = full if size is None else size
    if not _proved(size <= full):
        raise ValueError(f"{DEQUANTIZE}: {size} values of {bits} bits in {words.ty} on axis {axis}")
    per_word = width // bits
    if interleave < 1 or per_word % interleave:
        raise ValueError(f"{DEQUANTIZE}: {per_word} values interleaved by {interleave}")
    values = _spread(words, words.ty.shape, per_word, axis, size)
    if per_word > 1:
        place = op.floor_mod(op.arange(0, size, 1, "int64"), _int(per_word))
        if interleave > 1:
            place = op.add(
                op.multiply(op.floor_mod(place, _int(interleave)), _int(per_word // interleave)),
                op.floor_divide(place, _int(interleave)),
            )
        shift = op.astype(op.multiply(place, _int(bits)), dtype)
        values = op.right_shift(values, _along(shift, axis, len(words.ty.shape)))
    if bits < width:
        values = op.bitwise_and(values, relax.const((1 << bits) - 1, dtype))
    return values


def _spread(groups: Any, shape: Any, length: int, axis: int, size: Any) -> Any:
    """The element of its group for each value along an axis."""
    spread = groups if length == 1 else op.repeat(groups, length, axis)
    if _proved(shape[axis] * length == size):
        return spread
    return op.strided_slice(spread, [axis], [0], [size])


def _check_groups(name: str, groups: Any, values: Any, axis: int, length: int) -> None:
    """Raise an error unless there is one element for each group of values."""
    fits = len(groups) == len(values) and length > 0
    if not fits or not all(
        _proved(v <= g * length) if k == axis else _proved(v == g)
        for k, (g, v) in enumerate(zip(groups, values, strict=True))
    ):
        raise ValueError(
            f"{DEQUANTIZE}: {name} of shape {list(groups)}, expected one element for each "
            f"{length} values on axis {axis} of {list(values)}"
        )


def _int(value: int) -> Any:
    return relax.const(value, "int64")


def _proved(condition: Any) -> bool:
    return bool(sym.Analyzer().can_prove(condition))
