"""The smallest output box of a large literal map: bounds, then a witness that they are reached."""

from __future__ import annotations

from collections.abc import Callable

from ..integer import _digit_bounds as digit_bounds
from ..integer import bounds, floordiv, is_div, nonneg
from ..interval import interval
from ..prove import Verdict
from ..scalar import ge0
from ..term import Int, as_int, integer, mul, polynomial
from .convert import Map, Unsupported
from .engines import z3_bv
from .goal import Goal
from .instances import corners, sampled
from .numeric import Image


def upper(r: Int) -> Int | None:
    """An upper bound over sizes: the least that is known, a literal one if they do not compare."""
    best: Int | None = None
    for top in (bounds(r)[1], digit_bounds(r)[1], *_merged(r)):
        if top is None or best is top:
            continue
        if best is None or nonneg(best - top) or (top.const is not None and best.const is None):
            best = top
    return best


def _merged(r: Int) -> list[Int | None]:
    """Of ``k * (num // den) + k * e + c`` as ``k * ((num + den * e) // den) + c``, k positive."""
    found: list[Int | None] = []
    for mono, k in r.terms:
        if len(mono) != 1 or not is_div(mono[0]) or k < 0:
            continue
        num, den = map(as_int, mono[0].args)  # type: ignore[attr-defined]
        rest = r - as_int(mono[0]) * k
        shift = next((c for m, c in rest.terms if not m), 0)
        if all(c % k == 0 for m, c in rest.terms if m):
            e = polynomial({m: c // k for m, c in rest.terms if m})
            top = bounds(num + mul(den, e))[1]
            found.append(None if top is None else floordiv(top, den) * k + shift)
    return found


def tight_box(m: Map, shape: tuple[int, ...], timeout_ms: int) -> tuple[Int, ...] | None:
    """One more than the greatest value of each result; None where no bound is known.

    Where Z3 cannot tell in time the bound itself is taken, which only makes the box larger.
    """
    tops = [_top(r) for r in m.results]
    if any(t is None for t in tops):
        return None
    known = [t for t in tops if t is not None]
    seen = _seen(m, shape, corners)
    if seen != known:
        seen = [max(a, b) for a, b in zip(seen, _seen(m, shape, sampled), strict=True)]
    return tuple(
        integer(_greatest(m, r, reached, top, timeout_ms) + 1)
        for r, reached, top in zip(m.results, seen, known, strict=True)
    )


def _seen(
    m: Map, shape: tuple[int, ...], points_of: Callable[[Map, tuple[int, ...]], Image]
) -> list[int]:
    """The greatest value of each result at some points, 0 if there are none."""
    try:
        points = points_of(m, shape)
    except Unsupported:
        return [0] * len(m.results)
    return [int(v.max()) if points.count else 0 for v in points.values]


def _top(r: Int) -> int | None:
    hi = upper(r)
    rough = interval(r)
    known = [k for k in (None if hi is None else hi.const, rough and rough[1]) if k is not None]
    return min(known) if known else None


def _greatest(m: Map, r: Int, reached: int, top: int, timeout_ms: int) -> int:
    """Bisection between a value that occurs and a bound, by proofs that a value is not exceeded."""
    low = max(reached, 0)
    while low < top:
        middle = (low + top) // 2
        verdict = _at_most(m, r, middle, timeout_ms)
        if verdict.proved:
            top = middle
        elif verdict.refuted:
            low = middle + 1
        else:
            break
    return max(top, 0)


def _at_most(m: Map, r: Int, value: int, timeout_ms: int) -> Verdict:
    return z3_bv(Goal("bound", "f(x) <= k", ge0(integer(value) - r), m.predicate), timeout_ms)
