"""Arrays of random elements, ordinary ones and those at the edges of their dtype."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
#: The share of elements that are at an edge, where edges are allowed.
SHARE = 0.15


def drawn(rng: random.Random, shape: Sequence[int], dtype: str, edges: bool = False) -> Array:
    """Return random elements; with `edges`, some are infinite, NaN, zero or extreme."""
    source = np.random.default_rng(rng.getrandbits(63))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return source.integers(0, 2, shape).astype(bool)
    if kind == "f":
        array = _floats(rng, source, shape).astype(dtype)
        extreme = [np.inf, -np.inf, np.nan, 0.0, -0.0, float(np.finfo(dtype).max),
                   float(np.finfo(dtype).tiny)]  # fmt: skip
    else:
        low, high = rng.choice(((0, 4), (-3, 4), (-9, 10), (0, 100)))
        array = source.integers(max(low, 0) if kind == "u" else low, high, shape).astype(dtype)
        info = np.iinfo(dtype)
        extreme = [info.min, info.max, 0, 1]
    if not edges or rng.random() < 0.4:
        return np.asarray(array)
    at = source.random(shape) < SHARE
    return np.where(at, source.choice(np.array(extreme, dtype), shape), array).astype(dtype)


def _floats(rng: random.Random, source: Any, shape: Sequence[int]) -> Array:
    form = rng.random()
    if form < 0.6:
        return np.asarray(source.normal(0, 1, shape))
    if form < 0.8:
        return np.asarray(source.uniform(0, 2, shape))
    if form < 0.95:  # equal elements, ties
        return np.asarray(source.integers(-3, 4, shape) / 2.0)
    return np.zeros(shape)


def extents(rng: random.Random, rank: int) -> list[int]:
    """Return small extents, now and then 1 or 0."""
    out = [rng.choice((1, 2, 3, 4, 5, 7, 8)) for _ in range(rank)]
    if rank and rng.random() < 0.03:
        out[rng.randrange(rank)] = 0
    return out
