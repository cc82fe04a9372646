"""Weights that are quantised by group, repacked into the panels that kernels stream once.

    values[k, n] of few bits      data[n // 16, k // 4 // per, n % 16, k % 4], per values in a byte
    scales[k // group, n]         scales[n // 16, block, n % 16], a group being one block or several

A byte has values of rows that lie 4 apart. 3 bits are stored as 4. Blocks have at most `LONGEST`
rows, and are filled up to whole words, beside which there are zeros in the activations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.region import Array

#: Columns of a panel.
COLUMNS = 16
#: Rows of a block, at most, so that sums of products of integers stay below 2**31.
LONGEST = 128
#: The largest offset that is subtracted as an integer: then sums of two digits stay below 2**31.
LARGEST_OFFSET = 255
#: The bits in which values of some bits are stored.
STORED = {2: 2, 3: 4, 4: 4, 8: 8}


@dataclass(frozen=True, eq=False)
class Panels:
    """A packed matrix.

    Attributes:
        depth, columns: Its extents.
        bits: Of a value as stored.
        group, block, part: Rows of a group; of a block; of a block before it is filled up.
        blocks: Of a panel.
        offset: Subtracted from all values, if there are no zero points.
        data, scales, zeros: As described above; scales and zeros are float16 or float32.
    """

    depth: int
    columns: int
    bits: int
    group: int
    block: int
    part: int
    blocks: int
    offset: int
    data: Array
    scales: Array
    zeros: Array | None


def packed(operands: Sequence[Array], attrs: Mapping[str, Any], reduced: int) -> Panels:
    """Pack a matrix whose axis ``reduced`` a product sums over.

    Args:
        operands: The words, the scales, and perhaps the zero points of a dequantisation by group.
        attrs: Its attributes; the axis of the groups is ``reduced``.
        reduced: 0 or 1.

    Raises:
        ValueError: A scale or zero point is not finite, or a weight overflows float16.
    """
    words, scales, *zeros = operands
    bits, axis = int(attrs["bits"]), int(attrs["axis"]) % 2
    along = axis if attrs["packed_axis"] is None else int(attrs["packed_axis"]) % 2
    values = unpacked(words, bits, along, attrs["size"], int(attrs["interleave"]))
    shift = 0.0
    if np.issubdtype(values.dtype, np.signedinteger) and values.dtype.itemsize * 8 == bits:
        values, shift = (values.astype("int16") + 128).astype("uint8"), 128.0
    offset, points = float(attrs["offset"]) + shift, None
    if zeros:
        points = _zero_points(zeros[0], scales, attrs) + offset
    elif not offset.is_integer() or not 0 <= offset <= LARGEST_OFFSET:
        points = np.full(scales.shape, offset, "float32")
    if reduced == 1:
        values, scales = values.T, scales.T
        points = None if points is None else points.T
    _check(scales, np.array(offset) if points is None else points, bits)
    return _panels(values.astype("uint8"), scales, points, bits, int(attrs["group_size"]), offset)


def unpacked(words: Array, bits: int, axis: int, size: int | None, interleave: int) -> Array:
    """The values in words, in the dtype of the words, as `group_dequantize` defines them."""
    width = words.dtype.itemsize * 8
    per_word = width // bits
    if per_word == 1 and bits == width:
        return words if size is None else words.take(range(size), axis)
    size = words.shape[axis] * per_word if size is None else int(size)
    index = np.arange(size)
    place = index % per_word
    place = place % interleave * (per_word // interleave) + place // interleave
    shape = [1, 1]
    shape[axis] = size
    shifts = (place * bits).astype(words.dtype).reshape(shape)
    spread = words.take(index // per_word, axis)
    return np.asarray((spread >> shifts) & words.dtype.type((1 << bits) - 1))


def _zero_points(zeros: Array, scales: Array, attrs: Mapping[str, Any]) -> Array:
    along = attrs["zero_points_axis"]
    if along is not None:
        along = int(along) % 2
        zeros = unpacked(zeros, int(attrs["bits"]), along, scales.shape[along],
                         int(attrs["interleave"]))  # fmt: skip
    return zeros.astype("float32")


def _check(scales: Array, points: Array, bits: int) -> None:
    if not (np.isfinite(scales.astype("float32")).all() and np.isfinite(points).all()):
        raise ValueError("a scale or a zero point is not finite")
    if scales.dtype == np.float16 and scales.size:
        largest = 2.0**bits + max(2.0**bits, float(abs(points).max(initial=0.0)))
        if float(abs(scales.astype("float32")).max()) * largest > np.finfo("float16").max:
            raise ValueError("a weight may exceed the range of float16")


def _panels(
    values: Array, scales: Array, points: Array | None, bits: int, group: int, offset: float
) -> Panels:
    """Panels of values of rows and columns."""
    depth, columns = values.shape
    group = max(1, min(group, depth))
    stored = STORED[bits]
    unit = 4 * 8 // stored
    parts = -(-group // LONGEST)
    part = -(-group // (parts * unit)) * unit if parts > 1 else group
    parts = -(-group // part)
    block = -(-part // unit) * unit
    kind = np.float16 if scales.dtype == np.float16 else np.float32
    if points is not None and kind == np.float16 and (points.astype(kind) != points).any():
        kind = np.float32
    starts = [s for g in range(0, depth, group)
              for s in range(g, min(g + group, depth), part)]  # fmt: skip
    rows = np.zeros((len(starts), block), "int64") - 1
    for b, start in enumerate(starts):
        end = min(start + part, (start // group + 1) * group, depth)
        rows[b, : end - start] = np.arange(start, end)
    count = -(-columns // COLUMNS)
    padded = np.zeros((depth + 1, count * COLUMNS), "uint8")  # the last row fills up blocks
    padded[:depth, :columns] = values
    data = padded[rows.reshape(-1)].reshape(
        len(starts), block // unit, 8 // stored, 4, count, COLUMNS
    )
    data = data.transpose(4, 0, 1, 5, 3, 2)
    packed_data = data[..., 0].copy()
    for j in range(1, 8 // stored):
        packed_data |= data[..., j] << np.uint8(j * stored)
    groups = [s // group for s in starts]

    def by_block(array: Array) -> Array:
        out = np.zeros((len(starts), count * COLUMNS), kind)
        out[:, :columns] = array[groups]
        out = out.reshape(len(starts), count, COLUMNS).transpose(1, 0, 2)
        return np.ascontiguousarray(out)

    return Panels(depth, columns, stored, group, block, part, len(starts),
                  int(offset) if points is None else 0, packed_data.reshape(-1), by_block(scales),
                  None if points is None else by_block(points))  # fmt: skip
