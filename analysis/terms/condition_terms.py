"""Smart constructors for conditions, and for selections by them.

Conditions over integers have two forms, ``ge0(p)`` and ``eq0(p)``; connectives are n-ary, sorted,
without duplicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .integer import floordiv
from .order import bounds, nonneg
from .quotient import is_div
from .term import (
    FALSE,
    TRUE,
    CallTerm,
    Int,
    Load,
    Term,
    as_int,
    integer,
    raw_call,
    recall,
    remember,
)
from .term.work_budget import spend

#: Of more minima in one condition, each doubles the conditions that it would become.
_MOST_EXTREMES = 4


def ge0(poly: Int) -> Term:
    """Return ``poly >= 0``."""
    condition: Term | None = recall(poly, "ge0")
    if condition is None:
        condition = _ge0(poly)
        remember(poly, "ge0", condition)
    return condition


def _ge0(poly: Int) -> Term:
    if nonneg(poly):
        return TRUE
    if nonneg(-poly - 1):
        return FALSE
    chosen = _over_choice(poly, ge0)
    if chosen is not None:
        return chosen
    bounded = _over_extreme(poly)
    if bounded is not None:
        return bounded
    floored = _unfloor(poly)
    if floored is not None:
        return ge0(floored)
    coarser = _coarser(poly)
    return raw_call("ge0", (poly,), "bool") if coarser is poly else ge0(coarser)


def _over_choice(poly: Int, test: Callable[[Int], Term]) -> Term | None:
    """``test(k*(a if c else b) + d)`` with literals: ``test(k*a + d) if c else test(k*b + d)``."""
    linear = [(m, c) for m, c in poly.terms if m]
    if len(linear) != 1 or len(linear[0][0]) != 1:
        return None
    atom = linear[0][0][0]
    if not (isinstance(atom, CallTerm) and atom.op == "ite"):
        return None
    condition, a, b = atom.args
    if as_int(a).const is None or as_int(b).const is None:
        return None
    others = poly - as_int(atom) * linear[0][1]
    yes, no = (test(as_int(v) * linear[0][1] + others) for v in (a, b))
    return ite(condition, yes, no)


def _over_extreme(poly: Int) -> Term | None:
    """``d + c * min(a, b) >= 0`` iff ``d + c*a >= 0`` and ``d + c*b >= 0``; max if ``c < 0``."""
    extremes = _extremes(poly)
    if not extremes:
        return None
    atom, c = extremes[0]
    others = poly - as_int(atom) * c
    return conj(*(ge0(others + as_int(a) * c) for a in atom.args))


def _extremes(poly: Int) -> list[tuple[CallTerm, int]]:
    """The minima, and maxima with a negative factor, over which ``poly >= 0`` is split."""
    found = [(atom, c) for mono, c in poly.terms for atom in mono[:1]
             if len(mono) == 1 and isinstance(atom, CallTerm)
             and atom.op == ("min" if c > 0 else "max")]  # fmt: skip
    return found if len(found) <= _MOST_EXTREMES else []


def _unfloor(poly: Int) -> Int | None:
    """``c * (x // d) + k >= 0`` iff ``x - d * ceil(-k / c) >= 0``, and the same for ``c < 0``."""
    linear = [(m, c) for m, c in poly.terms if m]
    if len(linear) > 1:
        return _unfloor_one(poly)
    if len(linear) != 1 or len(linear[0][0]) != 1 or not is_div(linear[0][0][0]):
        return None
    num, den = linear[0][0][0].args  # type: ignore[attr-defined]
    c, k = linear[0][1], next((c for m, c in poly.terms if not m), 0)
    if c > 0:
        return as_int(num) - as_int(den) * -(k // c)
    return as_int(den) * (k // -c + 1) - 1 - as_int(num)


def _unfloor_one(poly: Int) -> Int | None:
    """``r + x // d >= 0`` iff ``d*r + x >= 0``; ``r - x//d >= 0`` iff ``d*r + d - 1 - x >= 0``."""
    divisions = [(m, c) for m, c in poly.terms if any(is_div(a) for a in m)]
    if len(divisions) != 1 or len(divisions[0][0]) != 1 or abs(divisions[0][1]) != 1:
        return None
    (atom,), sign = divisions[0]
    num, den = map(as_int, atom.args)  # type: ignore[attr-defined]
    others = poly - as_int(atom) * sign
    out = others * den + num if sign == 1 else others * den + den - 1 - num
    return None if _divisions(out) else out


def _coarser(poly: Int) -> Int:
    """``poly >= 0`` iff ``poly // g >= 0``: divide for fewer terms, without new divisions."""
    for g in sorted({abs(c) for m, c in poly.terms if m and abs(c) > 1}, reverse=True):
        quotient = floordiv(poly, integer(g))
        exact = all(c % g == 0 for m, c in poly.terms if m)
        if _divisions(quotient) <= _divisions(poly) and (
            exact or len(quotient.terms) < len(poly.terms)
        ):
            return quotient
    return poly


def _divisions(poly: Int) -> int:
    return sum(1 for m, _ in poly.terms for a in m if is_div(a))


def eq0(poly: Int) -> Term:
    """Return ``poly == 0``."""
    if poly.const is not None:
        return TRUE if poly.const == 0 else FALSE
    chosen = _over_choice(poly, eq0)
    if chosen is not None:
        return chosen
    lo, hi = bounds(poly)
    if (lo is not None and nonneg(lo - 1)) or (hi is not None and nonneg(-hi - 1)):
        return FALSE
    divisor = math.gcd(*(c for m, c in poly.terms if m))
    shift = next((c for m, c in poly.terms if not m), 0)
    if shift % divisor:
        return FALSE
    poly = floordiv(poly, integer(divisor))
    lead = max(poly.terms, key=lambda t: (len(t[0]), *(a.uid for a in t[0])))
    if lead[1] < 0:
        poly = -poly
    lo, hi = bounds(poly)
    if lo is not None and lo.const == 0 and _single(poly):
        return ge0(-poly)
    if hi is not None and hi.const == 0 and _single(poly):
        return ge0(poly)
    return raw_call("eq0", (poly,), "bool")


def _single(poly: Int) -> bool:
    return len(poly.terms) == 1 or (len(poly.terms) == 2 and not poly.terms[0][0])


def conj(*conditions: Term) -> Term:
    return _connective("and", TRUE, FALSE, conditions)


def disj(*conditions: Term) -> Term:
    return _connective("or", FALSE, TRUE, conditions)


def _connective(op: str, unit: Term, absorbing: Term, conditions: tuple[Term, ...]) -> Term:
    flat: dict[Term, None] = {}
    for term in conditions:
        for part in parts(term, op):
            if part is absorbing:
                return absorbing
            if part is not unit:
                flat[part] = None
    if not flat:
        return unit
    if len(flat) == 1:
        return next(iter(flat))
    spend(1 + len(flat) // 4)
    if any(negate(c) in flat for c in flat if _may_be_contradicted(c, op)):
        return absorbing
    different = _exclusive(op, tuple(flat)) if len(flat) == 2 else None
    if different is not None:
        return different
    return raw_call(op, tuple(sorted(flat, key=lambda term: term.uid)), "bool")


def _may_be_contradicted(condition: Term, op: str) -> bool:
    """Whether the negation may be among others; a conjunct's that is a conjunction is not."""
    if not isinstance(condition, CallTerm) or condition.op not in ("ge0", "not"):
        return False
    return not (op == "and" and condition.op == "ge0" and _extremes(-as_int(condition.args[0]) - 1))


def _exclusive(op: str, pair: tuple[Term, ...]) -> Term | None:
    """``(a or b) and not (a and b)``, or ``a and not b or b and not a``, as ``a ^ b``."""
    inner = "or" if op == "and" else "and"
    first, second = (parts(c, inner) for c in pair)
    if len(first) != 2 or len(second) != 2 or {*map(negate, first)} != {*second}:
        return None
    plain = [c.args[0] if isinstance(c, CallTerm) and c.op == "not" else c for c in first]
    if not all(isinstance(c, Load) for c in plain):
        return None
    inverted = sum(c not in plain for c in first) % 2 == (op == "and")
    return exclusive_or(*plain) if not inverted else negate(exclusive_or(*plain))


def exclusive_or(a: Term, b: Term) -> Term:
    """Return ``a ^ b`` for bools."""
    return raw_call("bitxor", tuple(sorted((a, b), key=lambda term: term.uid)), "bool")


def parts(condition: Term, op: str = "and") -> tuple[Term, ...]:
    """Return the conjuncts (or disjuncts) of a condition."""
    if isinstance(condition, CallTerm) and condition.op == op:
        return condition.args
    return (condition,)


def negate(term: Term) -> Term:
    """Return the negation of a condition; ``>= 0`` and connectives are negated inside."""
    if term is TRUE or term is FALSE:
        return FALSE if term is TRUE else TRUE
    if isinstance(term, CallTerm):
        if term.op == "not":
            return term.args[0]
        if term.op == "ge0":
            return ge0(-as_int(term.args[0]) - 1)
        if term.op in ("and", "or"):
            cached: Term | None = recall(term, "not")
            if cached is None:
                cached = (disj if term.op == "and" else conj)(*map(negate, term.args))
                remember(term, "not", cached)
            return cached
    return raw_call("not", (term,), "bool")


def ite(condition: Term, a: Term, b: Term) -> Term:
    """Return ``a if condition else b``."""
    if condition is TRUE or a is b:
        return a
    if condition is FALSE:
        return b
    if a is TRUE and b is FALSE:
        return condition
    if a is FALSE and b is TRUE:
        return negate(condition)
    if isinstance(a, Int) or isinstance(b, Int):
        a, b = as_int(a), as_int(b)
    if a.dtype == "bool" and isinstance(condition, Load):
        if isinstance(b, Load) and a is negate(b):
            return exclusive_or(condition, b)
        if isinstance(a, Load) and b is negate(a):
            return negate(exclusive_or(condition, a))
    inner = atom_of(a)
    if isinstance(inner, CallTerm) and inner.op == "ite":
        if same_term(inner.args[2], b):
            return ite(conj(condition, inner.args[0]), inner.args[1], b)
        if inner.args[0] is condition:
            return ite(condition, inner.args[1], b)
    nested = atom_of(b)
    if isinstance(nested, CallTerm) and nested.op == "ite":
        if nested.args[0] is condition:
            return ite(condition, a, nested.args[2])
        if same_term(nested.args[1], a):
            return ite(disj(condition, nested.args[0]), a, nested.args[2])
        common = _all_but_opposite(condition, nested.args[0])
        if common is not None:
            shared, only = common
            return ite(shared, ite(only, a, nested.args[1]), nested.args[2])
    if isinstance(condition, CallTerm) and condition.op == "not":
        condition, a, b = condition.args[0], b, a
    out = raw_call("ite", (condition, a, b), "int" if isinstance(a, Int) else a.dtype)
    return as_int(out) if isinstance(a, Int) else out


def _all_but_opposite(first: Term, second: Term) -> tuple[Term, Term] | None:
    """``(c, p)`` for conditions ``c and p`` and ``c and not p``; None for others."""
    if not all(isinstance(t, CallTerm) and t.op == "and" for t in (first, second)):
        return None
    ours, theirs = set(parts(first)), set(parts(second))
    only, other = ours - theirs, theirs - ours
    if len(only) != 1 or len(other) != 1 or negate(*only) is not next(iter(other)):
        return None
    return conj(*(ours & theirs)), only.pop()


def atom_of(term: Term) -> Term | None:
    """Return the atom of an integer that is a single one, else None; any other term itself."""
    return term.atom if isinstance(term, Int) else term


def same_term(a: Term, b: Term) -> bool:
    """Return whether two terms are the same, where ``a`` may be an atom and ``b`` its integer."""
    return a is b or (isinstance(b, Int) and as_int(a) is b)
