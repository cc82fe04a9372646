"""Implication without search: whether a goal follows from single facts."""

from __future__ import annotations

from collections.abc import Iterable

from ..terms.order import nonneg
from ..terms.scalar import ge0
from ..terms.term import TRUE, CallTerm, Int, Term, as_int


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
        poly = as_int(goal.args[0])
        return any(nonneg(poly - q) for f in facts for q in _nonnegatives(f))
    if goal.op == "eq0":
        poly = as_int(goal.args[0])
        return follows_from(ge0(poly), facts) and follows_from(ge0(-poly), facts)
    if goal.op == "not" and isinstance(goal.args[0], CallTerm) and goal.args[0].op == "eq0":
        poly = as_int(goal.args[0].args[0])
        return follows_from(ge0(poly - 1), facts) or follows_from(ge0(-poly - 1), facts)
    return False


def _nonnegatives(fact: Term) -> tuple[Int, ...]:
    if isinstance(fact, CallTerm) and fact.op == "ge0":
        return (as_int(fact.args[0]),)
    if isinstance(fact, CallTerm) and fact.op == "eq0":
        poly = as_int(fact.args[0])
        return poly, -poly
    return ()
