"""Register tiles: how many rows, and vectors in each, are computed at a time.

Every point of the reduction loads ``vectors`` vectors and one scalar a row, and takes a fused
multiply-add for each pair. Two of each start in a cycle; a sum waits four cycles for its last term:

    cycles(rows, vectors) = max(rows * vectors / 2, (rows + vectors) / 2, 4)

Loads are never free altogether: each is taken for a twentieth of a cycle more, that of a vector,
which may come from the second cache, for an eighth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .machine import VectorUnits

LATENCY = 4
#: Rows of a tile, where vectors are shared among them.
FEWEST, MOST = 4, 14
#: What a tile costs beside its reduction, in cycles: its start and its stores.
START = 12


@dataclass(frozen=True)
class Tile:
    """``rows`` times ``vectors`` of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int


def pieces(extent: int, most: int) -> list[tuple[int, int, int]]:
    """An extent in nearly equal parts of at most ``most``: (start, how many, size).

    >>> pieces(37, 14)
    [(0, 1, 13), (13, 2, 12)]
    """
    count = -(-extent // most)
    size, larger = divmod(extent, count)
    found = [(0, larger, size + 1), (larger * (size + 1), count - larger, size)]
    return [(s, n, z) for s, n, z in found if n]


def columns(extent: int, lanes: int, twice: bool = True) -> list[tuple[int, int]]:
    """The vectors over an axis, where each starts and its lanes.

    The last one overlaps the one before it where elements may be computed ``twice``; else the rest
    is of shorter ones.

    >>> columns(40, 16)
    [(0, 16), (16, 16), (24, 16)]
    >>> columns(7, 16), columns(7, 16, twice=False)
    ([(0, 4), (3, 4)], [(0, 4), (4, 2), (6, 1)])
    """
    width = _within(extent, lanes)
    found = [(s, width) for s in range(0, extent - width + 1, width)]
    end = len(found) * width
    if twice and end < extent:
        return [*found, (extent - width, width)]
    while end < extent:
        width = _within(extent - end, width)
        found.append((end, width))
        end += width
    return found


def _within(extent: int, lanes: int) -> int:
    """The largest power of two that is no more than both."""
    return min(lanes, 1 << (extent.bit_length() - 1))


def best(
    rows: int, vectors: int, depth: int, lanes: int, m: VectorUnits, sizes: Sequence[int] = ()
) -> Tile:
    """The tile for so many rows and vectors and a reduction of ``depth`` points; of so many rows
    as ``sizes`` has, where it has some."""
    r, v = _best(rows, vectors, depth, m.registers, tuple(sizes))
    return Tile(r, v, lanes)


def cycles(rows: int, vectors: int, depth: int, m: VectorUnits) -> float:
    """What the best tile takes for all of them."""
    return _cycles(rows, vectors, depth, *_best(rows, vectors, depth, m.registers, ()))


@lru_cache(maxsize=4096)
def _best(
    rows: int, vectors: int, depth: int, registers: int, sizes: tuple[int, ...]
) -> tuple[int, int]:
    every = list(_tiles(rows, vectors, registers))
    fits = [t for t in every if t[0] in sizes]
    return min(fits or every, key=lambda t: (_cycles(rows, vectors, depth, *t), -t[1]))


def divisors(multiple: int) -> list[int]:
    """The numbers of rows of which a tile is worthwhile that divide a number.

    >>> divisors(8), divisors(24), divisors(2)
    ([4, 8], [4, 6, 8, 12], [])
    """
    return [r for r in range(FEWEST, MOST + 1) if multiple % r == 0]


def _tiles(rows: int, vectors: int, registers: int) -> Iterator[tuple[int, int]]:
    for v in range(1, min(vectors, registers // 2) + 1):
        for r in range(1, rows + 1):
            if r * v + (v if r > 1 else 0) + 1 > registers:
                break
            yield r, v


def _cycles(rows: int, vectors: int, depth: int, most: int, wide: int) -> float:
    total = 0.0
    for _, n, r in pieces(rows, most):
        whole, rest = divmod(vectors, wide)
        total += n * whole * _tile(r, wide, depth)
        total += n * _tile(r, rest, depth) if rest else 0
    return total


def _tile(r: int, v: int, depth: int) -> float:
    return depth * (max(r * v / 2, (r + v) / 2, LATENCY) + r / 20 + v / 8) + START + r * v
