"""Implication without search: whether a goal follows from single facts."""

from __future__ import annotations

from collections.abc import Iterable

from ..terms.condition_terms import ge0
from ..terms.order import nonneg
from ..terms.quotient import is_div
from ..terms.term import TRUE, CallTerm, Int, Term, as_int, mul


def follows_from(goal: Term, facts: Iterable[Term]) -> bool:
    """Return whether the goal follows from single facts, without search."""
    facts = tuple(facts)
    if goal is TRUE or goal in facts:
        return True
    if not isinstance(goal, CallTerm):
        return False
    if goal.op == "and":
        return all(follows_from(g, facts) for g in goal.args)
    if goal.op == "or":
        return any(follows_from(g, facts) for g in goal.args)
    if goal.op == "ge0":
        poly = _without_quotient(as_int(goal.args[0]))
        bounds = dict.fromkeys((poly, _below_quotients(poly)))
        return any(nonneg(p - q) for p in bounds for f in facts for q in _nonnegatives(f))
    if goal.op == "eq0":
        poly = as_int(goal.args[0])
        return follows_from(ge0(poly), facts) and follows_from(ge0(-poly), facts)
    if goal.op == "not" and isinstance(goal.args[0], CallTerm) and goal.args[0].op == "eq0":
        poly = as_int(goal.args[0].args[0])
        return follows_from(ge0(poly - 1), facts) or follows_from(ge0(-poly - 1), facts)
    return False


def _without_quotient(poly: Int) -> Int:
    """Return a polynomial that is at least 0 where ``k - x // d`` is: ``(k + 1) * d - 1 - x``."""
    for mono, coef in poly.terms:
        if coef == -1 and len(mono) == 1 and is_div(mono[0]):
            assert isinstance(mono[0], CallTerm)
            num, den = map(as_int, mono[0].args)
            return mul(poly + as_int(mono[0]) + 1, den) - 1 - num
    return poly


def _below_quotients(poly: Int) -> Int:
    """Return a lower bound, with ``x - d + 1`` for each ``d * (x // d)``."""
    out = poly
    for mono, coef in poly.terms:
        if len(mono) == 1 and is_div(mono[0]):
            assert isinstance(mono[0], CallTerm)
            num, den = map(as_int, mono[0].args)
            if den.const is not None and coef > 0 and coef % den.const == 0:
                out = out - as_int(mono[0]) * coef + (num - den + 1) * (coef // den.const)
    return out


def _nonnegatives(fact: Term) -> tuple[Int, ...]:
    if isinstance(fact, CallTerm) and fact.op == "ge0":
        return (as_int(fact.args[0]),)
    if isinstance(fact, CallTerm) and fact.op == "eq0":
        poly = as_int(fact.args[0])
        return poly, -poly
    return ()
