"""Minima and maxima with a sign in front, or of a number and zero."""

from __future__ import annotations

from ..terms.scalar import call
from ..terms.term import CallTerm, Const, Term, const
from .extremes import EXTREMES, extreme_of, select_value
from .sums.polynomial import (
    REAL,
    Monomial,
    Poly,
    key_of,
    operands,
    ordered,
    plus,
    poly_of,
    to_term,
)


def signed(poly: Poly, dtype: str) -> Poly:
    """Return a polynomial with one form for negated extremes, and for parts of both signs.

    -max(-a, -b) = min(a, b)        j*max(q, 0) + k*min(q, 0) = max(j*q, k*q) for j >= k
    a*max(q, 0) + b*min(q, 0) = a*q if 0 < q else b*q
    """
    out, changed = poly, False
    for mono, coef in poly.items():
        flipped = _flipped(mono[0], dtype) if len(mono) == 1 else None
        if flipped is not None:
            out = plus({m: c for m, c in out.items() if m is not mono}, {(flipped,): -coef})
            changed = True
    whole = {m[0]: c for m, c in out.items() if len(m) == 1 and _of_zero(m[0]) is not None}
    for upper, j in whole.items():
        q = _of_zero(upper)
        lower = next((x for x in whole if _of_zero(x) is q and x is not upper), None)
        if not (isinstance(upper, CallTerm) and upper.op == "max" and lower is not None and q):
            continue
        k = whole[lower]
        rest = {m: c for m, c in out.items() if m not in ((upper,), (lower,))}
        parts = [to_term(plus({}, poly_of(q, dtype), c), dtype) for c in (j, k)]
        merged = parts[0] if j == k else extreme_of("max" if j > k else "min", parts, dtype)
        return signed(plus(rest, poly_of(merged, dtype)), dtype)
    chosen = _chosen_factor(out, dtype)
    return chosen if chosen is not None else out if changed else poly


def _chosen_factor(poly: Poly, dtype: str) -> Poly | None:
    """``a*max(q, 0) + b*min(q, 0)`` as the selection of a*q or b*q by the sign of q; or None."""
    parts = [(m, x, q) for m in poly for x in m if (q := _of_zero(x)) is not None]
    for upper, high, q in parts:
        for lower, low, other in parts:
            if other is not q or _op(high) != "max" or _op(low) != "min" or upper is lower:
                continue
            above = _times_inner(upper, high, q, poly[upper])
            below = _times_inner(lower, low, q, poly[lower])
            rest = {m: c for m, c in poly.items() if m is not upper and m is not lower}
            condition = call("lt", (const(0.0, dtype), q), "bool")
            return plus(rest, select_value(condition, condition, above, below, dtype))
    return None


def _op(term: Term) -> str:
    return term.op if isinstance(term, CallTerm) else ""


def _times_inner(mono: Monomial, extreme: Term, inner: Term, coef: float) -> Poly:
    """The monomial with the operand of an extreme in its place."""
    others = list(mono)
    others.remove(extreme)
    return {ordered((*others, *m)): c * coef for m, c in poly_of(inner, inner.dtype).items()}


def _of_zero(term: Term) -> Term | None:
    """The q of ``max(q, 0)`` or ``min(q, 0)``."""
    if not (isinstance(term, CallTerm) and term.op in EXTREMES and term.dtype in REAL):
        return None
    args = list(operands(term.op, term))
    zero = [x for x in args if isinstance(x, Const) and x.value == 0]
    return next(x for x in args if x not in zero) if len(args) == 2 and len(zero) == 1 else None


def _flipped(term: Term, dtype: str) -> Term | None:
    """The extreme of the negated operands, if each that is not a literal begins with a minus."""
    if not (isinstance(term, CallTerm) and term.op in EXTREMES and term.dtype in REAL):
        return None
    polys = [poly_of(x, dtype) for x in operands(term.op, term)]
    leads = [min((m for m in p if m), key=key_of, default=None) for p in polys]
    pairs = [(p, m) for p, m in zip(polys, leads, strict=True) if m is not None]
    if not pairs or any(p[m] > 0 for p, m in pairs) or not all(map(_finite_literals, polys)):
        return None
    negated = [to_term(plus({}, p, -1.0), dtype) for p in polys]
    return extreme_of("min" if term.op == "max" else "max", negated, dtype)


def _finite_literals(poly: Poly) -> bool:
    """Whether no operand is itself an infinite literal."""
    return not any(isinstance(x, Const) for mono in poly for x in mono)
