"""``while`` loops as folds that continue until nothing changes.

    while c(state): state = f(state)
    for _ in range(FOREVER): state = f(state) if c(state) else state

Both forms leave the same state if the loop ends; a loop that does not end has no meaning.
"""

from __future__ import annotations

from dataclasses import replace

from ...terms.condition_terms import conj
from ...terms.term import FOREVER, Load, TensorVar, Term, bare, fresh, load
from ...terms.traversal import subterms, tensors
from ..effects.effects import Effects, Write
from ..tir.unliftable import Unliftable
from .fold import close_together


def close_while(condition: Term, body: Effects) -> Effects:
    """Return the effects of the loop; ``condition`` is over the state before an iteration."""
    if tensors(condition).isdisjoint(body.writes):
        raise Unliftable("a while loop does not change its condition")
    var, out = fresh(FOREVER), Effects()
    group = {t: _only(t, writes) for t, writes in body.writes.items()}
    group = {t: replace(w, guard=conj(condition, w.guard)) for t, w in group.items()}
    states = {bare(load(t, w.index)) for t, w in group.items()}
    for write in group.values():
        _check(write, frozenset(group), states)
    places = {t: n for n, t in enumerate(group)}
    for tensor in group:
        out.writes[tensor] = [close_together(var, tensor, group, places)]
    return out


def _only(tensor: TensorVar, writes: list[Write]) -> Write:
    (write, *others) = writes
    if others or write.vars:
        raise Unliftable("a while loop stores to more than one element of a buffer", tensor.name)
    return write


def _check(write: Write, changing: frozenset[TensorVar], states: set[Term]) -> None:
    """Check that the elements that are stored are the only ones that change and are read."""
    if any(not tensors(e).isdisjoint(changing) for e in write.index):
        raise Unliftable("a while loop computes the address of its store")
    for part in (write.guard, write.value):
        for term in subterms(part):
            if isinstance(term, Load) and term.tensor in changing and term not in states:
                raise Unliftable(
                    "a while loop reads an element that it does not store",
                    term.tensor.name,
                )
