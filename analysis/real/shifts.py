"""The number that a quotient of sums of exponentials is shifted by.

    Σ_j f(j) * exp(p(j) - m) / Σ_j exp(p(j) - m)

is the same for every m. A program takes a maximum that is at least each p(j), so that no power
overflows: the maximum over the same j, or over more numbers, as where masked ones count as 0. The
form has the maximum over the same j alone. A shift that does not bound the exponents stays, and so
does one that also bounds other data or a literal above 0: far above the exponents, the powers are
all zero.
"""

from __future__ import annotations

import math

from ..lifting.loops.reduction import canonical
from ..terms.condition_terms import ite
from ..terms.reduction_terms import reduce, split_guard
from ..terms.term import TRUE, CallTerm, Const, Reduce, Term, as_int, const
from ..terms.traversal import free, replace, substitute, subterms
from .sums.polynomial import Monomial, Poly, ordered, plus, poly_of, to_term


def least_shift(poly: Poly) -> Poly:
    """Return a polynomial whose quotients of exponentials are shifted by the least bound."""
    out = poly
    for mono, coef in poly.items():
        better = _least(mono)
        if better is not None:
            out = plus({m: c for m, c in out.items() if m is not mono}, {better: coef})
    return out


def _least(mono: Monomial) -> Monomial | None:
    for atom in mono:
        total = atom.args[0] if isinstance(atom, CallTerm) and atom.op == "recip" else None
        if not isinstance(total, Reduce) or total.op != "add" or len(total.axes) != 1:
            continue
        for shift in _shifts(total):
            best = _bound_of_same(total, shift)
            others = [x for x in mono if x is not atom and shift in subterms(x)]
            if best is None or best is shift or len(others) != 1:
                continue
            if _scales(total, shift) and _scales(others[0], shift):
                return ordered(_replaced(x, shift, best) for x in mono)
    return None


def _shifts(total: Reduce) -> list[Reduce]:
    """The maxima that the sum's exponents are shifted by."""
    found = (s for s in subterms(total.body) if isinstance(s, Reduce) and s.op == "max")
    return [s for s in found if len(s.axes) == 1 and free(s).isdisjoint(total.axes)]


def _scales(term: Term, shift: Term) -> bool:
    """Whether a term is a product with ``exp(-shift)``, as each summand of it is."""
    if isinstance(term, Reduce):
        zero = const(0.0, term.dtype)
        guard, body = split_guard(term.body, zero)
        if term.op != "add" or term.init is not zero or shift in subterms(guard):
            return False
        return all(_scaled_once(m, shift) for m in poly_of(body, term.dtype))
    return _scaled_once((term,), shift)


def _scaled_once(mono: Monomial, shift: Term) -> bool:
    readers = [x for x in mono if shift in subterms(x)]
    if len(readers) != 1:
        return False
    guard, power = split_guard(readers[0], const(0.0, readers[0].dtype))
    if shift in subterms(guard) or not (isinstance(power, CallTerm) and power.op == "exp"):
        return False
    exponent = poly_of(power.args[0], power.dtype)
    rest = {m: c for m, c in exponent.items() if m != (shift,)}
    return exponent.get((shift,)) == -1.0 and all(shift not in subterms(x) for m in rest for x in m)


def _bound_of_same(total: Reduce, shift: Reduce) -> Term | None:
    """The maximum of the exponents where the sum has them, if the shift is at least that."""
    zero, dtype = const(0.0, total.dtype), total.dtype
    guard, body = split_guard(total.body, zero)
    if not (isinstance(body, CallTerm) and body.op == "exp"):
        return None
    (axis,), (over,) = total.axes, shift.axes
    exponent = plus(poly_of(body.args[0], dtype), {(shift,): 1.0})
    here = {axis: as_int(over)}
    condition, value = substitute(guard, here), substitute(to_term(exponent, dtype), here)
    inside, bounded = _unmasked(shift.body)
    if axis.extent is not over.extent or bounded != poly_of(value, dtype):
        return None
    if not _is_low(shift.init):
        return None
    if inside is not TRUE and inside is not condition:
        return None
    low = const(-math.inf, dtype)
    return canonical(reduce("max", (over,), ite(condition, value, low), low, dtype))


def _is_low(term: Term) -> bool:
    """Whether a term is a literal that is not above 0."""
    return isinstance(term, Const) and isinstance(term.value, (int, float)) and term.value <= 0


def _unmasked(body: Term) -> tuple[Term, Poly]:
    """The condition and the value of ``k * (v if c else literal)``."""
    poly = poly_of(body, body.dtype)
    if len(poly) == 1:
        ((mono, coef),) = poly.items()
        choices = [x for x in mono if isinstance(x, CallTerm) and x.op == "ite"]
        if len(choices) == 1 and _is_low(choices[0].args[2]) and coef > 0:
            others = ordered(x for x in mono if x is not choices[0])
            value = poly_of(choices[0].args[1], body.dtype)
            product = {ordered((*others, *m)): c * coef for m, c in value.items()}
            if not others:
                return choices[0].args[0], product
    return TRUE, poly


def _replaced(term: Term, shift: Term, best: Term) -> Term:
    return canonical(replace(term, {shift: best}))
