"""Bounds of one result, from several forms of it."""

from __future__ import annotations

from collections.abc import Iterator

from ...solving.remainder import remainder
from ...terms.integer import floordiv
from ...terms.order import bounds, nonneg
from ...terms.quotient import is_div
from ...terms.term import ZERO, Int, as_int, mul, polynomial


def upper(poly: Int) -> Int | None:
    """Return the least known upper bound; a literal one if two are not comparable."""
    best: Int | None = None
    for top in uppers(poly):
        if best is None or nonneg(best - top) or (top.const is not None and best.const is None):
            best = top
    return best


def certainly_nonneg(poly: Int) -> bool:
    """Return whether a bound shows ``poly >= 0``."""
    return nonneg(poly) or any(nonneg(-top) for top in uppers(-poly))


def uppers(poly: Int) -> list[Int]:
    """Return distinct, valid upper bounds over sizes."""
    candidates = (bounds(poly)[1], _digits(poly), *_merged(poly))
    return list(dict.fromkeys(t for t in candidates if t is not None))


def _digits(poly: Int) -> Int | None:
    """The sum of the remainders' greatest values: ``k * (x % d) <= k * (d - 1)``."""
    out = ZERO
    while (part := remainder(poly)) is not None:
        coef, _, den, poly = part
        if nonneg(coef):
            out = out + mul(coef, den - 1)
        elif not nonneg(-coef):
            return None
    top = bounds(poly)[1]
    return None if top is None else out + top


def _merged(poly: Int) -> Iterator[Int]:
    """Bounds of ``k * (num // den) + k * e + c`` as ``k * ((num + den * e) // den) + c``."""
    for mono, k in poly.terms:
        if len(mono) != 1 or not is_div(mono[0]):
            continue
        num, den = map(as_int, mono[0].args)  # type: ignore[attr-defined]
        others = poly - as_int(mono[0]) * k
        shift = next((c for m, c in others.terms if not m), 0)
        if all(c % k == 0 for m, c in others.terms if m):
            e = polynomial({m: c // k for m, c in others.terms if m})
            lo, hi = bounds(num + mul(den, e))
            end = hi if k > 0 else lo
            if end is not None:
                yield floordiv(end, den) * k + shift
