"""Literal intervals of integer terms, and the largest magnitude of intermediate values.

Unlike `bounds` these are plain numbers: they decide whether a computation fits a machine word, and
which width a bit-vector needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .term import CallTerm, Int, Term, Var

Interval = tuple[int, int]
Sized = tuple[int, int, int]
"""Least value, greatest value, and largest magnitude of the value and all its sub-terms."""


def interval(term: Term) -> Interval | None:
    """Return inclusive bounds of an integer term; None if it has none."""
    result = sized(term)
    return None if result is None else result[:2]


def magnitude(term: Term) -> int | None:
    """Return the largest absolute value in computing ``term``; None if unbounded."""
    result = sized(term)
    return None if result is None else result[2]


def sized(term: Term, intervals: Mapping[Var, Sized] | None = None) -> Sized | None:
    """Return interval and magnitude; a boolean has the interval ``[0, 1]``.

    ``intervals`` has the intervals of variables without a literal domain.
    """
    if intervals:
        memo: dict[Term, Sized | None] = {v: s for v, s in intervals.items()}

        def inside(term: Term) -> Sized | None:
            if term not in memo:
                memo[term] = _sized(term, inside)
            return memo[term]

        return inside(term)
    if "sized" not in term.memo:
        term.memo["sized"] = _sized(term, sized)
    return term.memo["sized"]  # type: ignore[no-any-return]


def _sized(term: Term, go: Callable[[Term], Sized | None]) -> Sized | None:
    if isinstance(term, Int):
        return _polynomial(term, go)
    if isinstance(term, Var):
        extent = None if term.extent is None else term.extent.const
        return None if extent is None else (0, max(extent - 1, 0), max(extent, 1))
    if isinstance(term, CallTerm):
        args = [go(a) for a in term.args]
        if term.op in _RULES and all(a is not None for a in args):
            operands = [a for a in args if a is not None]
            lo, hi = _RULES[term.op](operands)
            return lo, hi, max(abs(lo), abs(hi), *(a[2] for a in operands))
    return (0, 1, 1) if term.dtype == "bool" and not getattr(term, "args", ()) else None


def _polynomial(poly: Int, go: Callable[[Term], Sized | None]) -> Sized | None:
    lo = hi = worst = inside = 0
    for mono, coef in poly.terms:
        a = b = 1
        reach = 1
        for atom in mono:
            sized_atom = go(atom)
            if sized_atom is None:
                return None
            ends = [x * y for x in (a, b) for y in sized_atom[:2]]
            a, b = min(ends), max(ends)
            reach *= max(abs(sized_atom[0]), abs(sized_atom[1]), 1)
            inside = max(inside, sized_atom[2])
        ends = [a * coef, b * coef]
        lo, hi = lo + min(ends), hi + max(ends)
        worst += reach * abs(coef)
    return lo, hi, max(worst, inside)


def _div(args: list[Sized]) -> Interval:
    (a, b, _), (c, d, _) = args
    ends = [x // max(y, 1) for x in (a, b) for y in (c, d)]
    return min(ends), max(ends)


def _truncdiv(args: list[Sized]) -> Interval:
    top = max(-args[0][0], args[0][1])
    return -top, top


def _hull(args: list[Sized]) -> Interval:
    return min(a[0] for a in args), max(a[1] for a in args)


def _bits(args: list[Sized]) -> Interval:
    top = max(max(a[1], -a[0]).bit_length() for a in args)
    return (0 if all(a[0] >= 0 for a in args) else -(1 << top)), (1 << top) - 1


def _boolean(args: list[Sized]) -> Interval:
    return 0, 1


_RULES = {
    "floordiv": _div,
    "truncdiv": _truncdiv,
    "min": _hull,
    "max": _hull,
    "ite": lambda args: _hull(args[1:]),
    "bitand": _bits,
    "bitor": _bits,
    "bitxor": _bits,
    **dict.fromkeys(("ge0", "eq0", "and", "or", "not"), _boolean),
}


def fits_int64(term: Term) -> bool:
    """Return whether every intermediate value is known to be below 2**62."""
    largest = magnitude(term)
    return largest is not None and largest < 1 << 62
