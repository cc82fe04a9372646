"""Remainders inside polynomials: ``x - d * (x // d)`` recognised as ``x % d``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..terms.integer import floordiv
from ..terms.quotient import divide, is_div
from ..terms.term import ONE, ZERO, Int, Mono, Term, as_int, mul, polynomial


class Remainder(NamedTuple):
    """``coef * (num % den) + others``."""

    coef: Int
    num: Int
    den: Int
    others: Int


def remainder(poly: Int, accept: Callable[[Remainder], bool] = lambda r: True) -> Remainder | None:
    """Return ``poly`` as a multiple of a remainder plus the shortest sum; None if it has none."""
    best: Remainder | None = None
    for candidate in remainders(poly):
        shorter = best is None or len(candidate.others.terms) < len(best.others.terms)
        if shorter and accept(candidate):
            best = candidate
    return best


def remainders(poly: Int) -> Iterator[Remainder]:
    """Yield every remainder that makes ``poly`` shorter."""
    for mono, coef in poly.terms:
        for atom in mono:
            if not is_div(atom):
                continue
            factors = list(mono)
            factors.remove(atom)
            for factor, num, den in _candidates(poly, atom, polynomial({tuple(factors): coef})):
                shorter = poly - mul(factor, num - mul(den, floordiv(num, den)))
                if len(shorter.terms) < len(poly.terms):
                    yield Remainder(factor, num, den, shorter)


def _candidates(poly: Int, atom: Term, outer: Int) -> list[tuple[Int, Int, Int]]:
    """Candidates for ``outer * atom`` as the subtracted part of a remainder."""
    num, den = map(as_int, atom.args)  # type: ignore[attr-defined]
    results = []
    share = _share(poly, num)
    if share:
        results.append((ONE * share, num, den))
    factor, remaining = divide(-outer, den)
    if remaining is ZERO and factor.const != share:
        results.append((factor, num, den))
    for mono, coef in poly.terms:
        inner = mono[0] if len(mono) == 1 else None
        if inner is None or inner is atom or not is_div(inner) or outer.const is None:
            continue
        if outer.const % coef == 0 and (ratio := -outer.const // coef) > 1:
            numerator = _shifted(inner, num)
            if floordiv(numerator, ONE * ratio) is as_int(atom):
                results.append((ONE * coef, numerator, ONE * ratio))
    return results


def _share(poly: Int, num: Int) -> int:
    """The multiple of ``num`` in ``poly``, by its leading term; 0 if it is not a whole number."""
    lead = max(num.terms, key=_weight)
    coef = dict(poly.terms).get(lead[0], 0)
    return 0 if coef % lead[1] else coef // lead[1]


def _weight(term: tuple[Mono, int]) -> tuple[int, int]:
    return len(term[0]), abs(term[1])


def _shifted(inner: Term, num: Int) -> Int:
    """``x // c + s`` where num is ``x + c*s``."""
    finer, (x, c) = as_int(inner), inner.args  # type: ignore[attr-defined]
    shift, remaining = divide(num - as_int(x), as_int(c))
    return finer + shift if remaining is ZERO else finer
