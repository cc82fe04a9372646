"""Exponentials before a sum of exponentials, where one term of the exponents cancels.

    exp(m - g) * Σ_r f(r) * exp(x(r) - m) = Σ_r f(r) * exp(x(r) - g)

This is how partial sums that are relative to maxima m of their own are joined.
"""

from __future__ import annotations

from ..lifting.loops.reduction import canonical
from ..terms.condition_terms import ite
from ..terms.reduction_terms import reduce, split_guard
from ..terms.term import CallTerm, Reduce, Term, const, raw_call
from ..terms.traversal import free
from .sums.polynomial import Monomial, Poly, ordered, plus, poly_of, to_term


def absorbed(mono: Monomial) -> Monomial:
    """Return a monomial with its exponential inside of one of its sums, if a term cancels."""
    powers = [x for x in mono if isinstance(x, CallTerm) and x.op == "exp"]
    if len(powers) != 1:
        return mono
    exponent = poly_of(powers[0].args[0], powers[0].dtype)
    for total in mono:
        if not isinstance(total, Reduce) or total.op != "add":
            continue
        inside = _inside(total, exponent)
        if inside is not None:
            return ordered([inside, *(x for x in mono if x is not total and x is not powers[0])])
    return mono


def _is_maximum(mono: Monomial) -> bool:
    """Whether a term is one maximum; relative to another number, exponentials may overflow."""
    return len(mono) == 1 and isinstance(mono[0], (CallTerm, Reduce)) and mono[0].op == "max"


def _inside(total: Reduce, exponent: Poly) -> Term | None:
    """The sum with an exponential in each summand; None if no term cancels in all of them."""
    zero, axes = const(0.0, total.dtype), frozenset(total.axes)
    if total.init is not zero or any(not axes.isdisjoint(free(x)) for m in exponent for x in m):
        return None
    guard, body = split_guard(total.body, zero)
    summands = poly_of(body, total.dtype)
    cancelling = {m: c for m, c in exponent.items() if c > 0 and _is_maximum(m)}
    out: Poly = {}
    for mono, coef in summands.items():
        powers = [x for x in mono if isinstance(x, CallTerm) and x.op == "exp"]
        if len(powers) != 1:
            return None
        own = poly_of(powers[0].args[0], total.dtype)
        cancelling = {m: c for m, c in cancelling.items() if own.get(m) == -c}
        power = raw_call("exp", (to_term(plus(own, exponent), total.dtype),), total.dtype)
        others = [x for x in mono if x is not powers[0]]
        out = plus(out, {ordered((*others, power)): coef})
    if not cancelling:
        return None
    inner = ite(guard, to_term(out, total.dtype), zero)
    return canonical(reduce("add", total.axes, inner, zero, total.dtype))
