"""The smallest output box of a large literal map: bounds, and witnesses that reach them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ...proofs.solvers.verdict import Verdict
from ...terms.condition_terms import ge0
from ...terms.interval import interval
from ...terms.row_major import volume
from ...terms.term import Int, integer
from ..engines.goal import Goal
from ..engines.image import Image
from ..engines.instances import corners, sample
from ..engines.z3_engines import z3_bv
from ..maps.bounds import upper, uppers
from ..maps.to_terms import Map, Unsupported


def symbolic_box(index_map: Map) -> tuple[Int, ...] | None:
    """Return one more than an upper bound of each result, with the map's volume if possible."""
    tops = [upper(r) for r in index_map.results]
    if any(t is None for t in tops):
        return None
    box = tuple(t + 1 for t in tops if t is not None)
    points = volume(index_map.extents)
    choices = itertools.product(*([t + 1 for t in uppers(r)] for r in index_map.results))
    for candidate in itertools.chain([box], itertools.islice(choices, 64)):
        if volume(candidate) is points:
            return tuple(candidate)
    return box


def tight_box(index_map: Map, shape: tuple[int, ...], timeout_ms: int) -> tuple[Int, ...] | None:
    """Return one more than the greatest value of each result; None if a bound is unknown.

    If Z3 cannot decide in time, the bound itself is used, which only makes the box larger.
    """
    tops = [_top(r) for r in index_map.results]
    if any(t is None for t in tops):
        return None
    limits = [t for t in tops if t is not None]
    attained = _attained(index_map, shape, corners)
    if attained != limits:
        attained = [
            max(a, b) for a, b in zip(attained, _attained(index_map, shape, sample), strict=True)
        ]
    return tuple(
        integer(_greatest(index_map, poly, reached, top, timeout_ms) + 1)
        for poly, reached, top in zip(index_map.results, attained, limits, strict=True)
    )


def _attained(
    index_map: Map, shape: tuple[int, ...], points_of: Callable[[Map, tuple[int, ...]], Image]
) -> list[int]:
    """The greatest value of each result at some points, 0 if there are none."""
    try:
        points = points_of(index_map, shape)
    except Unsupported:
        return [0] * len(index_map.results)
    return [int(v.max()) if points.count else 0 for v in points.values]


def _top(poly: Int) -> int | None:
    hi = upper(poly)
    rough = interval(poly)
    literals = [k for k in (None if hi is None else hi.const, rough and rough[1]) if k is not None]
    return min(literals) if literals else None


def _greatest(index_map: Map, poly: Int, reached: int, top: int, timeout_ms: int) -> int:
    """The greatest value, by bisection between an attained value and a bound."""
    low = max(reached, 0)
    while low < top:
        middle = (low + top) // 2
        verdict = _at_most(index_map, poly, middle, timeout_ms)
        if verdict.proved:
            top = middle
        elif verdict.refuted:
            low = middle + 1
        else:
            break
    return max(top, 0)


def _at_most(index_map: Map, poly: Int, value: int, timeout_ms: int) -> Verdict:
    return z3_bv(
        Goal("bound", "f(x) <= k", ge0(integer(value) - poly), index_map.predicate), timeout_ms
    )
