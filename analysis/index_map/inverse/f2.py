"""Inversion of maps that permute bits: affine over GF(2) on extents that are powers of two.

``y = A x + b`` over the bits of all coordinates, so ``x = A^-1 (y + b)``. Covers exclusive or,
shifts, masks, bit interleaving and every split, fuse and transpose of these extents. ``A`` is read
off the images of the unit bits; the caller's proof decides whether the map *is* affine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...terms.evaluate import Unevaluable, evaluate
from ...terms.integer import floordiv, floormod
from ...terms.interval import fits_int64
from ...terms.term import TRUE, ZERO, Int, Var, integer
from ...terms.term.exclusive_or import xor
from ..engines.goal import place
from ..maps.to_terms import Map

SAMPLES = 32


def f2_inverse(index_map: Map, ys: Sequence[Var]) -> tuple[Int, ...] | None:
    """Return inverse results over ``ys``, or None if the map is not affine over bits."""
    shape = index_map.literal_shape
    if shape is None or index_map.predicate is not TRUE or any(k & (k - 1) for k in shape):
        return None
    parts = _images(index_map, shape)
    if parts is None:
        return None
    columns, offset, images = parts
    solved = _eliminated(images, len(columns))
    if solved is None:
        return None
    start = [0] * len(index_map.axes)
    for output in _bits(offset):
        for column in _rows_with(solved, output):
            start[columns[column][0]] ^= 1 << columns[column][1]
    return tuple(_assembled(k, columns, solved, start[k], ys) for k in range(len(index_map.axes)))


Output = tuple[int, int]
"""An output coordinate and one of its bits."""


def _images(
    index_map: Map, shape: tuple[int, ...]
) -> tuple[list[tuple[int, int]], frozenset[Output], list[frozenset[Output]]] | None:
    """Input bits, the image of zero, and the flips of each input bit; None if not affine."""
    columns = [(k, b) for k, e in enumerate(shape) for b in range(e.bit_length() - 1)]
    units = np.zeros((len(shape), len(columns) + 1), dtype=np.int64)
    for column, (k, bit) in enumerate(columns):
        units[k, column + 1] = 1 << bit
    rng = np.random.default_rng(0)
    random = np.stack([rng.integers(0, e, SAMPLES) for e in shape]) if shape else units[:, :0]
    points = np.concatenate([units, random], axis=1)
    if not all(fits_int64(r) for r in index_map.results):
        return None
    try:
        env = dict(zip(index_map.axes, points, strict=True))
        values = [np.broadcast_to(evaluate(r, env), (points.shape[1],)) for r in index_map.results]
    except Unevaluable:
        return None
    n = len(columns) + 1
    if any((v < 0).any() for v in values) or not _affine(values, random, columns, n):
        return None
    flips = [[int(v[c] ^ v[0]) for v in values] for c in range(1, n)]
    return columns, _places([int(v[0]) for v in values]), [_places(f) for f in flips]


def _affine(
    values: list[np.ndarray], random: np.ndarray, columns: list[tuple[int, int]], n: int
) -> bool:
    """Whether random points are consistent with an affine map."""
    for result in values:
        expected = np.full(random.shape[1], result[0])
        for column, (k, bit) in enumerate(columns):
            expected = expected ^ np.where(
                (random[k] >> bit) & 1, result[column + 1] ^ result[0], 0
            )
        if not (expected == result[n:]).all():
            return False
    return True


def _places(values: Sequence[int]) -> frozenset[Output]:
    return frozenset(
        (k, bit)
        for k, value in enumerate(values)
        for bit in range(value.bit_length())
        if value >> bit & 1
    )


def _bits(places: frozenset[Output]) -> list[Output]:
    return sorted(places)


def _eliminated(images: list[frozenset[Output]], n: int) -> list[frozenset[Output]] | None:
    """For each input bit, the output bits whose sum it is; None if the columns are dependent."""
    outputs = sorted(frozenset[Output]().union(*images))
    rows = [
        (sum(1 << c for c, image in enumerate(images) if output in image), frozenset({output}))
        for output in outputs
    ]
    solved: list[frozenset[Output]] = []
    for column in range(n):
        pivot = next((r for r in range(column, len(rows)) if rows[r][0] >> column & 1), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        mask, combination = rows[column]
        for row in range(len(rows)):
            if row != column and rows[row][0] >> column & 1:
                rows[row] = (rows[row][0] ^ mask, rows[row][1] ^ combination)
    solved = [rows[c][1] for c in range(n)]
    return solved


def _rows_with(solved: list[frozenset[Output]], output: Output) -> list[int]:
    return [c for c, s in enumerate(solved) if output in s]


def _assembled(
    axis: int,
    columns: list[tuple[int, int]],
    solved: list[frozenset[Output]],
    start: int,
    ys: Sequence[Var],
) -> Int:
    """Runs of consecutive bits as digits; added if they do not overlap, else xor-ed."""
    bits_of: dict[tuple[int, int], set[int]] = {}
    for column, (k, input_bit) in enumerate(columns):
        if k == axis:
            for out, bit in solved[column]:
                bits_of.setdefault((out, input_bit - bit), set()).add(bit)
    parts: list[Int] = []
    used, overlap = 0, False
    for (out, shift), bits in sorted(bits_of.items()):
        for low, high in _runs(bits):
            mask = (
                ((1 << (high + 1)) - (1 << low)) << shift
                if shift >= 0
                else ((1 << (high + 1)) - (1 << low)) >> -shift
            )
            overlap |= bool(used & mask)
            used |= mask
            digit = floormod(floordiv(place(ys[out]), integer(1 << low)), integer(2 << high - low))
            parts.append(digit * (1 << (low + shift)))
    if not overlap:
        value = ZERO
        for poly in parts:
            value = value + poly
        return xor(value, integer(start)) if start else value
    return xor(*parts, integer(start))


def _runs(bits: set[int]) -> list[tuple[int, int]]:
    """Maximal intervals of consecutive bits."""
    out: list[tuple[int, int]] = []
    for bit in sorted(bits):
        if out and out[-1][1] == bit - 1:
            out[-1] = (out[-1][0], bit)
        else:
            out.append((bit, bit))
    return out
