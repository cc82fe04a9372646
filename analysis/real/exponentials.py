"""Exponentials in real arithmetic.

    2 ** p = exp(p * log(2))                 exp(p) * exp(q) = exp(p + q)
    exp(p if c else -inf) = exp(p) if c else 0
    1 / (exp(p) + exp(q)) = exp(-p) * s      with s = 1 / (1 + exp(q - p))
    exp(q) * 1 / (1 + exp(q)) = 1 - 1 / (1 + exp(q))

Of ``q - p`` and ``p - q``, the one whose first coefficient is negative is the exponent of s, so
that a sigmoid has one form for both signs of its operand.
"""

from __future__ import annotations

import math
import struct

from ..terms.term import CallTerm, Const, Term, raw_call
from .absorbed import absorbed
from .sums.polynomial import Monomial, Poly, inverse, key_of, ordered, plus, poly_of, times, to_term


def exponential(exponent: Poly, dtype: str) -> Poly:
    """Return ``exp`` of a polynomial; 1 for 0."""
    if not exponent:
        return {(): 1.0}
    return {(raw_call("exp", (to_term(exponent, dtype),), dtype),): 1.0}


def natural(exponent: Poly, dtype: str) -> Poly:
    """Return the exponent of e for one of 2; a literal is rounded to the dtype."""
    return {m: _rounded(c * math.log(2.0), dtype) for m, c in exponent.items()}


def _rounded(value: float, dtype: str) -> float:
    if dtype != "float32" or abs(value) > 1e30:
        return value
    return float(struct.unpack("f", struct.pack("f", value))[0])


def masked(exponent: Poly) -> tuple[Term, Poly, bool] | None:
    """Return c, p and False for the exponent ``p if c else -inf``; True for ``-inf if c else p``.

    The selection may be a summand: the others are finite.
    """
    for mono, coef in exponent.items():
        call = mono[0] if len(mono) == 1 else None
        if not (isinstance(call, CallTerm) and call.op == "ite" and coef > 0):
            continue
        others = {m: c for m, c in exponent.items() if m is not mono}
        for position in (1, 2):
            branch = call.args[position]
            if isinstance(branch, Const) and branch.value == -math.inf:
                kept = poly_of(call.args[3 - position], call.dtype)
                return call.args[0], plus(others, kept, coef), position == 1
    return None


def inverse_of(poly: Poly, dtype: str) -> Poly:
    """Return ``1 / poly``; of a sum of two exponentials, as a product of exp and a sigmoid."""
    if len(poly) != 2:
        return inverse(poly, dtype)
    (first, scale), (second, other) = poly.items()
    p, q = _exponent(first), _exponent(second)
    if p is None or q is None or scale != other:
        return inverse(poly, dtype)
    gap = plus(q, p, -1.0)
    if not gap or not (mono := min((m for m in gap if m), key=key_of, default=())):
        return inverse(poly, dtype)
    if gap[mono] > 0:
        p, gap = q, plus({}, gap, -1.0)
    sigmoid = inverse(plus({(): 1.0}, exponential(gap, dtype)), dtype)
    out = times(exponential(plus({}, p, -1.0), dtype), sigmoid, dtype)
    return plus({}, out, 1 / scale)


def joined(poly: Poly, dtype: str) -> Poly:
    """Return a polynomial with at most one exponential a monomial, and none beside its sigmoid.

    One that cancels a term of a sum's exponents is inside of the sum.
    """
    if not any(_is_exp(x) for mono in poly for x in mono):
        return poly
    out: Poly = {}
    for mono, coef in poly.items():
        powers = [x for x in mono if _is_exp(x)]
        others = [x for x in mono if not _is_exp(x)]
        exponent: Poly = {}
        for power in powers:
            exponent = plus(exponent, poly_of(power.args[0], dtype))  # type: ignore[attr-defined]
        sigmoid = next((x for x in others if powers and _exponent_of(x) == exponent), None)
        if sigmoid is not None:
            others.remove(sigmoid)  # one of its powers
            one_less = plus({ordered(others): coef}, {ordered((*others, sigmoid)): -coef})
            out = plus(out, one_less)
        elif len(powers) > 1:
            whole = times({ordered(others): coef}, exponential(exponent, dtype), dtype)
            out = plus(out, {absorbed(m): c for m, c in whole.items()})
        else:
            out = plus(out, {absorbed(mono): coef})
    return out


def _is_exp(term: Term) -> bool:
    return isinstance(term, CallTerm) and term.op == "exp"


def _exponent(mono: Monomial) -> Poly | None:
    """The exponent of a monomial that is an exponential or 1."""
    if not mono:
        return {}
    (atom, *others) = mono
    if others or not isinstance(atom, CallTerm) or atom.op != "exp":
        return None
    return poly_of(atom.args[0], atom.dtype)


def _exponent_of(term: Term) -> Poly | None:
    """The q of ``1 / (1 + exp(q))``."""
    if not (isinstance(term, CallTerm) and term.op == "recip"):
        return None
    poly = poly_of(term.args[0], term.dtype)
    if len(poly) != 2 or poly.get(()) != 1.0:
        return None
    ((mono, coef),) = ((m, c) for m, c in poly.items() if m)
    return _exponent(mono) if coef == 1.0 else None
