"""Choices by a remainder of a coordinate, with each branch written over the coordinate itself.

    x[4*(y // 4) + 3] if y % 4 == 3 else x[4*(y // 4) + 2] if y % 4 == 2 else …        =        x[y]

Where ``y % m == r``, ``m * (y // m)`` is ``y - r``. Programs that are unrolled by m have a branch
for each remainder, and the branches of one computation are then one term. A simplifier may write
the remainder as that of ``y + c``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..terms.condition_terms import ite
from ..terms.integer import floordiv
from ..terms.quotient import is_div
from ..terms.term import CallTerm, Int, Term, Var, as_int, fresh, integer
from ..terms.traversal import rebuild, subterms

Remainder = tuple[Term, int, int]
"""A division ``(v + c) // m`` with the remainder r of ``v + c``."""

Allowed = Mapping[tuple[Var, int], frozenset[int]]
"""By coordinate and modulus, the remainders that the coordinate may have."""


def by_coordinate(body: Term) -> Term:
    """Return a term whose choices by remainders have branches over the coordinates."""
    if not any(is_div(s) for s in subterms(body)):
        return body
    return _rewritten(body, {})


def _rewritten(body: Term, allowed: Allowed) -> Term:
    term = body.atom if isinstance(body, Int) else body
    if not (isinstance(term, CallTerm) and term.op == "ite"):
        return body
    condition, yes, no = term.args
    within, without = dict(allowed), dict(allowed)
    for key in _divided(condition):
        before = allowed.get(key, frozenset(range(key[1])))
        may, must = _remainders(condition, *key)
        within[key], without[key] = before & may, before - must
    branches = []
    for branch, now in ((yes, within), (no, without)):
        for (var, modulus), rests in now.items():
            if len(rests) == 1 and rests != allowed.get((var, modulus)):
                branch = _over_coordinate(branch, var, modulus, *rests)
        branches.append(_rewritten(branch, now))
    return ite(condition, *branches)


def _divided(condition: Term) -> set[tuple[Var, int]]:
    """The coordinates with their moduli whose remainders occur in a condition."""
    found = set()
    for term in subterms(condition):
        known = remainder(term)
        whole = None if known is None else _of_coordinate(*known)
        if whole is not None:
            found.add(whole[:2])
    return found


def _remainders(condition: Term, var: Var, modulus: int) -> tuple[frozenset[int], frozenset[int]]:
    """The remainders with which a condition may hold, and those with which it does."""
    every = frozenset(range(modulus))
    if not isinstance(condition, CallTerm):
        return every, frozenset()
    if condition.op in ("and", "or"):
        mays, musts = zip(*(_remainders(c, var, modulus) for c in condition.args), strict=True)
        if condition.op == "and":
            return every.intersection(*mays), every.intersection(*musts)
        return frozenset().union(*mays), frozenset().union(*musts)
    if condition.op == "not":
        may, must = _remainders(condition.args[0], var, modulus)
        return every - must, every - may
    known = remainder(condition)
    whole = None if known is None else _of_coordinate(*known)
    if whole is not None and whole[:2] == (var, modulus):
        return frozenset({whole[2]}), frozenset({whole[2]})
    if condition.op == "ge0" and var.extent is not None:
        found, shift = _shifted(as_int(condition.args[0]))
        if found is var:  # a coordinate is at least its remainder
            return every, frozenset(r for r in every if r + shift >= 0)
        found, shift = _shifted(as_int(condition.args[0]) * -1)
        if found is var:
            return frozenset(r for r in every if r + shift <= 0), frozenset()
    return every, frozenset()


def _of_coordinate(division: Term, modulus: int, rest: int) -> tuple[Var, int, int] | None:
    """The coordinate of a division, and its own remainder."""
    assert isinstance(division, CallTerm)
    var, shift = _shifted(as_int(division.args[0]))
    return None if var is None else (var, modulus, (rest - shift) % modulus)


def _shifted(value: Int) -> tuple[Var | None, int]:
    """``v`` and ``c`` of ``v + c``; None for other values."""
    shift = next((c for m, c in value.terms if not m), 0)
    var = (value - shift).atom
    return (var if isinstance(var, Var) else None), shift


def remainder(condition: Term) -> Remainder | None:
    """Return ``(v // m, m, r)`` for a condition ``v % m == r``, as one of its normal forms."""
    if not (isinstance(condition, CallTerm) and condition.op in ("eq0", "ge0")):
        return None
    poly = as_int(condition.args[0])
    for mono, coef in poly.terms:
        if len(mono) != 1 or not is_div(mono[0]):
            continue
        division = mono[0]
        assert isinstance(division, CallTerm)
        value, modulus = as_int(division.args[0]), as_int(division.args[1]).const
        if modulus is None or abs(coef) != modulus or _shifted(value)[0] is None:
            continue
        sign = -1 if coef > 0 else 1  # of v
        shift = (poly - (value - as_int(division) * modulus) * sign).const
        if shift is None:
            continue
        if condition.op == "eq0" and 0 <= -shift * sign < modulus:
            return division, modulus, -shift * sign
        if condition.op == "ge0" and sign == 1 and shift == 1 - modulus:
            return division, modulus, modulus - 1
        if condition.op == "ge0" and sign == -1 and shift == 0:
            return division, modulus, 0
    return None


def over_value(term: Term, division: Term, modulus: int, rest: int) -> Term:
    """Return a term with ``m * (v // m)`` as ``v - r``."""
    assert isinstance(division, CallTerm)
    start = as_int(division.args[0]) - rest

    @cache
    def go(term: Term) -> Term:
        if isinstance(term, Int):
            coef = dict(term.terms).get((division,), 0)
            if coef and coef % modulus == 0:
                term = term - as_int(division) * coef + start * integer(coef // modulus)
        return rebuild(term, go)

    return go(term)


def _over_coordinate(term: Term, var: Var, modulus: int, rest: int) -> Term:
    """Return a term with all ``m * ((v + c) // m)`` over ``v``, whose remainder is known."""
    for division in {s for s in subterms(term) if is_div(s)}:
        assert isinstance(division, CallTerm)
        value, divisor = as_int(division.args[0]), as_int(division.args[1]).const
        found, shift = _shifted(value)
        if found is var and divisor == modulus:
            term = over_value(term, division, modulus, (rest + shift) % modulus)
    return term


def as_digits(condition: Term, holds: bool) -> dict[Var, Int] | None:
    """Return ``v`` as ``m * q + r`` with a new q, where a condition ``v % m == r`` holds or not."""
    known = remainder(condition)
    if known is None or (not holds and known[1] != 2):
        return None
    division, modulus, rest = known
    assert isinstance(division, CallTerm)
    value = as_int(division.args[0]).atom
    if not isinstance(value, Var) or value.extent is None:
        return None
    rest = rest if holds else 1 - rest
    quotient = fresh(floordiv(value.extent - rest + (modulus - 1), integer(modulus)))
    return {value: as_int(quotient) * modulus + rest}
