"""Simplify selections by the facts that hold around them.

In the first branch of ``a if c else b`` the condition holds, in the second it does not. A condition
that enclosing ones imply disappears; one that contradicts them selects the other branch.
``ask(goal, facts)`` decides implication.
"""

from __future__ import annotations

from collections.abc import Callable

from ..terms.scalar import conj, ite, negate, parts
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


def simplify(t: Term, facts: tuple[Term, ...] = (), ask: Ask = quick) -> Term:
    """Return a simpler term with the same value wherever the facts hold."""
    if not has_choice(t):
        return t
    memo: dict[Term, Term] = {}

    def go(s: Term) -> Term:
        if not has_choice(s):
            return s
        result = memo.get(s)
        if result is None:
            if isinstance(s, CallTerm) and s.op == "ite":
                result = _choose(s, facts, ask)
            else:
                result = rebuild(s, go)
            memo[s] = result
        return result

    return go(t)


def _choose(s: CallTerm, facts: tuple[Term, ...], ask: Ask) -> Term:
    condition, yes, no = s.args
    open_parts = []
    for c in parts(condition):
        if ask(c, facts):
            continue
        if ask(negate(c), facts):
            return simplify(no, facts, ask)
        open_parts.append(c)
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


def has_choice(t: Term) -> bool:
    """Return whether the term contains a selection."""
    result: bool | None = t.memo.get("choice")
    if result is None:
        chooses = isinstance(t, CallTerm) and t.op == "ite"
        result = t.memo["choice"] = chooses or any(map(has_choice, t.children))
    return result
