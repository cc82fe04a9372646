"""Places for the nodes of a directed acyclic graph: layers downwards, few crossings.

Each node lies one layer below the lowest node that it reads; within a layer nodes are sorted by the
mean place of their neighbours, a few sweeps down and up, then moved to that mean as far as the
others let them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SWEEPS = 6


@dataclass(frozen=True)
class Place:
    """The centre of a node: in steps of a node's width to the right, and its layer."""

    x: float
    layer: int


def places(count: int, edges: Sequence[tuple[int, int]]) -> list[Place]:
    """The place of each node; an edge goes from an earlier to a later one.

    >>> places(3, [(0, 1), (1, 2)])
    [Place(x=0.0, layer=0), Place(x=0.0, layer=1), Place(x=0.0, layer=2)]
    """
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if not 0 <= a < b < count:
            raise ValueError(f"an edge goes from an earlier node to a later one; got {a} to {b}")
        above[b].append(a)
        below[a].append(b)
    layer = _layers(above, below)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in range(count):
        rows[layer[node]].append(node)
    x = [0.0] * count
    for row in rows:
        _spread(row, x, [float(k) for k in range(len(row))])
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            near = above if down else below
            _settle(row, x, near)
    left = min(x, default=0.0)
    return [Place(x[k] - left, layer[k]) for k in range(count)]


def _layers(above: list[list[int]], below: list[list[int]]) -> list[int]:
    """One below the lowest that is read; what reads nothing lies just above its first reader."""
    layer = [0] * len(above)
    for node, read in enumerate(above):
        layer[node] = max((layer[a] + 1 for a in read), default=0)
    for node in range(len(above) - 1, -1, -1):
        if not above[node] and below[node]:
            layer[node] = min(layer[b] for b in below[node]) - 1
    least = min(layer, default=0)
    return [k - least for k in layer]


def _settle(row: list[int], x: list[float], near: list[list[int]]) -> None:
    """Sort a row by where its neighbours are, and move it there."""
    wanted = {n: sum(x[k] for k in near[n]) / len(near[n]) if near[n] else x[n] for n in row}
    row.sort(key=lambda n: wanted[n])
    _spread(row, x, [wanted[n] for n in row])


def _spread(row: list[int], x: list[float], wanted: list[float]) -> None:
    """The places nearest to those wanted, in order, at least 1 apart (pooled means)."""
    pools: list[tuple[float, int]] = []  # the place of the first of a run, the run's length
    for w in wanted:
        start, size = w, 1
        while pools and pools[-1][0] + pools[-1][1] > start:
            first, more = pools.pop()
            start = (first * more + (start - more) * size) / (more + size)
            size += more
        pools.append((start, size))
    k = 0
    for start, size in pools:
        for step in range(size):
            x[row[k]] = start + step
            k += 1
