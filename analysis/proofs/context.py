"""Simplify selections by the facts that hold around them.

In the first branch of ``a if c else b`` the condition holds, in the second it does not. A condition
that enclosing ones imply disappears; one that contradicts them selects the other branch.
``ask(goal, facts)`` decides implication.
"""

from __future__ import annotations

from collections.abc import Callable

from ..terms.condition_terms import conj, ite, negate, parts
from ..terms.term import FALSE, CallTerm, Term
from ..terms.traversal import free, rebuild
from .implication import follows_from
from .prove import prove

Ask = Callable[[Term, tuple[Term, ...]], bool]


def quick(goal: Term, facts: tuple[Term, ...]) -> bool:
    """Return whether the goal follows from a single fact."""
    return follows_from(goal, facts)


def thorough(goal: Term, facts: tuple[Term, ...]) -> bool:
    """Return whether the provers derive the goal from the facts that share a variable with it."""
    variables = free(goal)
    related = tuple(f for f in facts if not variables.isdisjoint(free(f)))
    return prove(goal, related).proved


def simplify(term: Term, facts: tuple[Term, ...] = (), ask: Ask = quick) -> Term:
    """Return a simpler term with the same value wherever the facts hold."""
    if not has_choice(term):
        return term
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        if not has_choice(term):
            return term
        result = memo.get(term)
        if result is None:
            if isinstance(term, CallTerm) and term.op == "ite":
                result = _choose(term, facts, ask)
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


def _choose(call: CallTerm, facts: tuple[Term, ...], ask: Ask) -> Term:
    condition, yes, no = call.args
    open_parts = []
    for term in parts(condition):
        if ask(term, facts):
            continue
        if ask(negate(term), facts):
            return simplify(no, facts, ask)
        open_parts.append(term)
    condition = conj(*open_parts)
    if ask is thorough and len(open_parts) > 1 and ask(negate(condition), facts):
        return simplify(no, facts, ask)
    return ite(
        condition,
        simplify(yes, (*facts, *parts(condition)), ask),
        simplify(no, (*facts, *_not(condition)), ask),
    )


def _not(condition: Term) -> tuple[Term, ...]:
    opposite = negate(condition)
    return () if opposite is FALSE else (opposite,)


def has_choice(term: Term) -> bool:
    """Return whether the term contains a selection."""
    result: bool | None = term.memo.get("choice")
    if result is None:
        chooses = isinstance(term, CallTerm) and term.op == "ite"
        result = term.memo["choice"] = chooses or any(map(has_choice, term.children))
    return result
