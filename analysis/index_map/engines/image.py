"""The image of a map by enumeration, and collisions in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..maps.numeric import LIMIT, Array, evaluate
from ..maps.to_terms import Map, Unsupported


@dataclass(frozen=True, eq=False)
class Image:
    """Points of a domain (one array for each axis, of equal length) and their images."""

    points: tuple[Array, ...]
    values: tuple[Array, ...]
    count: int


def image(index_map: Map, shape: tuple[int, ...], sizes: Mapping[Any, int] | None = None) -> Image:
    """Return every point of the box where the predicate holds, with its image."""
    env_of_sizes = {v: np.asarray(k, dtype=np.int64) for v, k in (sizes or {}).items()}
    n = math.prod(shape)
    grids = [
        np.arange(extent, dtype=np.int64).reshape(-1, *[1] * (len(shape) - 1 - k))
        for k, extent in enumerate(shape)
    ]
    env = {**env_of_sizes, **dict(zip(index_map.source.initial_indices, grids, strict=True))}
    values = [_flat(evaluate(expr, env), shape) for expr in index_map.source.final_indices]
    points = [_flat(g, shape) for g in grids]
    if index_map.source_predicate is not None:
        keep = _flat(evaluate(index_map.source_predicate, env), shape)
        values = [v[keep] for v in values]
        points = [p[keep] for p in points]
        n = int(keep.sum())
    return Image(tuple(points), tuple(values), n)


def _flat(array: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1)


def linear(values: tuple[Array, ...], lower: tuple[int, ...], box: tuple[int, ...]) -> Array:
    """Return row-major positions in the box that starts at ``lower``."""
    if math.prod(box) >= LIMIT:
        raise Unsupported("the output box has more than 2^62 points")
    out: Any = np.zeros(values[0].shape if values else (1,), dtype=np.int64)
    for column, lo, extent in zip(values, lower, box, strict=True):
        out = out * extent + (column - lo)
    return np.asarray(out)


def collision(image: Image) -> tuple[int, int] | None:
    """Return the positions of two points with the same image, or None."""
    if image.count < 2:
        return None
    keys, volume = np.zeros(image.count, dtype=np.int64), 1
    for column in image.values:
        low = int(column.min())
        extent = int(column.max()) - low + 1
        if volume * extent >= LIMIT:
            column, low = np.unique(column, return_inverse=True)[1].reshape(-1), 0
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
            extent, volume = image.count, image.count
        keys, volume = keys * extent + (column - low), volume * extent
    return _repeated(keys, volume)


def _repeated(keys: Array, volume: int) -> tuple[int, int] | None:
    """Positions of two equal keys in ``[0, volume)``, or None."""
    n = keys.size
    if volume <= 8 * n + (1 << 12):
        last = np.empty(volume, dtype=np.int64)
        last[keys] = np.arange(n)
        earlier = last[keys]
        overwritten = np.flatnonzero(earlier != np.arange(n))
        return None if not overwritten.size else (int(overwritten[0]), int(earlier[overwritten[0]]))
    order = np.argsort(keys, kind="stable")
    ties = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    return None if not ties.size else (int(order[ties[0]]), int(order[ties[0] + 1]))
