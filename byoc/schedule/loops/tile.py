"""Register tiles: the rows, and vectors in each row, that are computed together.

Every point of the reduction loads ``vectors`` vectors and one scalar per row, and executes a fused
multiply-add for each pair. A CPU starts two of each per cycle; the latency of a sum is four cycles:

    cycles(rows, vectors) = max(rows * vectors / 2, (rows + vectors) / 2, 4)

Loads are never entirely free. A scalar load adds a twentieth of a cycle, and a vector load, which
may come from the L2 cache, an eighth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...codegen.vector_units import VectorUnits

LATENCY = 4
#: Minimum and maximum rows of a tile that share vectors.
FEWEST, MOST = 4, 14
#: Cycles of a tile outside its reduction: initialisation and stores.
START = 12


@dataclass(frozen=True)
class Tile:
    """``rows`` times ``vectors`` of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int


def pieces(extent: int, most: int) -> list[tuple[int, int, int]]:
    """Split an extent into nearly equal parts of at most ``most``: (start, count, size).

    >>> pieces(37, 14)
    [(0, 1, 13), (13, 2, 12)]
    """
    count = -(-extent // most)
    size, larger = divmod(extent, count)
    parts = [(0, larger, size + 1), (larger * (size + 1), count - larger, size)]
    return [(s, n, z) for s, n, z in parts if n]


def columns(extent: int, lanes: int, twice: bool = True) -> list[tuple[int, int]]:
    """Return the vectors that cover an axis: (start, lanes).

    The last vector overlaps its predecessor if elements may be computed ``twice``; otherwise
    shorter vectors cover the remainder.

    >>> columns(40, 16)
    [(0, 16), (16, 16), (24, 16)]
    >>> columns(7, 16), columns(7, 16, twice=False)
    ([(0, 4), (3, 4)], [(0, 4), (4, 2), (6, 1)])
    """
    width = _within(extent, lanes)
    vectors = [(s, width) for s in range(0, extent - width + 1, width)]
    end = len(vectors) * width
    if twice and end < extent:
        return [*vectors, (extent - width, width)]
    while end < extent:
        width = _within(extent - end, width)
        vectors.append((end, width))
        end += width
    return vectors


def _within(extent: int, lanes: int) -> int:
    """Return the largest power of two within the extent and the lanes."""
    return min(lanes, 1 << (extent.bit_length() - 1))


def best(
    rows: int, vectors: int, depth: int, lanes: int, units: VectorUnits, sizes: Sequence[int] = ()
) -> Tile:
    """Return the fastest tile for these rows, vectors and reduction depth.

    If ``sizes`` is not empty, it lists the permitted numbers of rows.
    """
    return Tile(*_best(rows, vectors, depth, units.registers, tuple(sizes)), lanes)


def cycles(rows: int, vectors: int, depth: int, units: VectorUnits) -> float:
    """Estimate the cycles of the best tile over all rows and vectors."""
    return _cycles(rows, vectors, depth, *_best(rows, vectors, depth, units.registers, ()))


@lru_cache(maxsize=4096)
def _best(
    rows: int, vectors: int, depth: int, registers: int, sizes: tuple[int, ...]
) -> tuple[int, int]:
    tiles = list(_tiles(rows, vectors, registers))
    permitted = [t for t in tiles if t[0] in sizes]
    return min(permitted or tiles, key=lambda t: (_cycles(rows, vectors, depth, *t), -t[1]))


def divisors(multiple: int) -> list[int]:
    """Return the permitted rows of a tile that divide a number.

    >>> divisors(8), divisors(24), divisors(2)
    ([4, 8], [4, 6, 8, 12], [])
    """
    return [r for r in range(FEWEST, MOST + 1) if multiple % r == 0]


def _tiles(max_rows: int, max_vectors: int, registers: int) -> Iterator[tuple[int, int]]:
    for vectors in range(1, min(max_vectors, registers // 2) + 1):
        for rows in range(1, max_rows + 1):
            if rows * vectors + (vectors if rows > 1 else 0) + 1 > registers:
                break
            yield rows, vectors


def _cycles(rows: int, vectors: int, depth: int, tile_rows: int, tile_vectors: int) -> float:
    total = 0.0
    for _, count, size in pieces(rows, tile_rows):
        full, remainder = divmod(vectors, tile_vectors)
        total += count * full * _tile_cycles(size, tile_vectors, depth)
        total += count * _tile_cycles(size, remainder, depth) if remainder else 0
    return total


def _tile_cycles(rows: int, vectors: int, depth: int) -> float:
    each = max(rows * vectors / 2, (rows + vectors) / 2, LATENCY) + rows / 20 + vectors / 8
    return depth * each + START + rows * vectors
