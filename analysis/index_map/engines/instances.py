"""Points that refute: small instances of symbolic maps, samples of large literal maps.

Instances can only refute: a map that is invertible for some sizes may not be for others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...terms.evaluate import Unevaluable, evaluate
from ...terms.term import Int
from ..maps.counterexample import Counterexample
from ..maps.numeric import Array
from ..maps.numeric import evaluate as evaluate_tvm
from ..maps.to_terms import Map, Unsupported
from .image import Image, collision, image, linear

POINTS = 1 << 12
SAMPLES = 1 << 12


def instances(index_map: Map) -> Iterator[tuple[dict[Any, int], Image]]:
    """Yield images for small sizes, with the values of the TVM variables of the sizes."""
    for values in _values(len(index_map.sizes)):
        env = {s: np.asarray(k) for (s, _), k in zip(index_map.sizes, values, strict=True)}
        try:
            shape = tuple(int(evaluate(e, env)) for e in index_map.extents)
            if min(shape, default=1) < 1 or math.prod(shape) > POINTS:
                continue
            sizes = {v: k for (_, v), k in zip(index_map.sizes, values, strict=True)}
            points = image(index_map, shape, sizes)
        except (Unsupported, Unevaluable):
            continue
        if points.count:
            yield sizes, points


def _values(rank: int) -> Iterator[tuple[int, ...]]:
    if rank == 1:
        yield from ((k,) for k in (1, 2, 3, 4, 5, 7, 8, 12))
        return
    rng = np.random.default_rng(rank)
    yield from itertools.islice(itertools.product((2, 3), repeat=rank), 4)
    for _ in range(8):
        yield tuple(int(k) for k in rng.integers(1, 8, rank))


def find_collision(index_map: Map) -> Counterexample | None:
    """Return two points with the same image in a small instance, or None."""
    for sizes, points in instances(index_map):
        pair = collision(points)
        if pair is not None:
            return _example("collision", points, sizes, *pair)
    return None


def find_gap(index_map: Map, box: tuple[Int, ...]) -> tuple[Counterexample | None, bool]:
    """Return a point whose image is outside the box, and whether an instance has unused places."""
    for sizes, points in instances(index_map):
        env = {s: np.asarray(sizes[v]) for s, v in index_map.sizes}
        extents = tuple(int(evaluate(e, env)) for e in box)
        for values, extent in zip(points.values, extents, strict=True):
            misses = np.flatnonzero((values < 0) | (values >= extent))
            if misses.size:
                return _example("out_of_range", points, sizes, int(misses[0])), True
        if points.count != math.prod(extents):
            return None, True
    return None, False


def corners(index_map: Map, shape: tuple[int, ...]) -> Image:
    """Return the corners of a literal box, at most 2^10 of them."""
    ends = [(0, e - 1) if e > 1 else (0,) for e in shape]
    points = np.array(list(itertools.islice(itertools.product(*ends), 1 << 10)), dtype=np.int64)
    return points_at(index_map, points.reshape(-1, len(shape)).T)


def sample(index_map: Map, shape: tuple[int, ...]) -> Image:
    """Return random points of a large literal domain, half of them near the origin."""
    rng = np.random.default_rng(0)
    axes = [
        np.concatenate(
            [rng.integers(0, extent, SAMPLES), rng.integers(0, min(extent, 32), SAMPLES)]
        )
        for extent in shape
    ]
    keys = linear(tuple(axes), (0,) * len(shape), shape)
    distinct = np.unique(keys, return_index=True)[1]
    return points_at(index_map, np.stack(axes)[:, distinct])


def points_at(index_map: Map, points: Array, sizes: Mapping[Any, int] | None = None) -> Image:
    """Return the images of points (one column each) where the predicate holds."""
    env = dict(zip(index_map.source.initial_indices, points, strict=True))
    env.update({v: np.asarray(k) for v, k in (sizes or {}).items()})
    n = points.shape[1]
    values = [np.broadcast_to(evaluate_tvm(e, env), (n,)) for e in index_map.source.final_indices]
    keep = np.ones(n, dtype=bool)
    if index_map.source_predicate is not None:
        keep = np.broadcast_to(evaluate_tvm(index_map.source_predicate, env), (n,)).astype(bool)
    return Image(tuple(points[:, keep]), tuple(v[keep] for v in values), int(keep.sum()))


def sample_collision(index_map: Map, shape: tuple[int, ...]) -> Counterexample | None:
    """Return two sampled points with the same image, or None."""
    try:
        points = sample(index_map, shape)
    except Unsupported:
        return None
    pair = collision(points)
    return None if pair is None else _example("collision", points, {}, *pair)


def _example(kind: Any, points: Image, sizes: dict[Any, int], *positions: int) -> Counterexample:
    return Counterexample(
        kind,
        tuple(tuple(int(a[k]) for a in points.points) for k in positions),
        tuple(tuple(int(a[k]) for a in points.values) for k in positions),
        tuple((v.name, k) for v, k in sizes.items()),
    )
