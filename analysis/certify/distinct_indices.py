"""Stores at indices from data, under the assumption that the indices are distinct."""

from __future__ import annotations

from ..terms.condition_terms import ite, parts
from ..terms.term import CallTerm, Fold, Int, Load, Term, as_int, bare, fold
from ..terms.traversal import replace, subterms

DISTINCT = "indices that select what a loop stores are distinct"


def stored_once(term: Term) -> Term:
    """Return the term where a series of stores reads no element after a store to it.

        for k: state = f(state, k) if place(k) == y else state

    With distinct places at most one iteration stores, and it reads the initial value. Only the last
    series of stores is changed, in each case of a selection.
    """
    single = bare(term)
    if isinstance(single, CallTerm) and single.op == "ite":
        condition, yes, no = single.args
        return ite(condition, stored_once(yes), stored_once(no))
    if not isinstance(single, Fold) or len(single.states) != 1:
        return term
    (state,), (start,), update = single.states, single.inits, single.updates[0]
    choice = bare(update)
    if not (isinstance(choice, CallTerm) and choice.op == "ite" and _selects(choice, single)):
        return term
    condition, value, no = choice.args
    atom = bare(start)
    new = ite(condition, replace(value, {state: atom}), no)
    update = as_int(new) if isinstance(update, Int) else new
    return fold(single.axis, single.states, single.inits, (update,))


def _selects(choice: CallTerm, loop: Fold) -> bool:
    """Whether data of an iteration decide if it stores in the element, and nothing else is kept."""
    condition, _, no = choice.args
    state = loop.states[0]
    kept = bare(no)
    if kept is not state or state in subterms(condition):
        return False
    return any(_equates(c, loop) for c in parts(condition))


def _equates(condition: Term, loop: Fold) -> bool:
    """Whether a condition compares a coordinate of the element with data of the iteration."""
    if not (isinstance(condition, CallTerm) and condition.op == "eq0"):
        return False
    inside = list(subterms(condition))
    coordinate = any(getattr(s, "kind", "") == "axis" for s in inside)
    return coordinate and any(isinstance(s, Load) and loop.axis in subterms(s) for s in inside)
