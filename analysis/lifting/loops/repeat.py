"""``while`` loops as folds that continue until nothing changes.

    while c(state): state = f(state)
    for _ in range(FOREVER): state = f(state) if c(state) else state

Both forms leave the same state if the loop ends; a loop that does not end has no meaning.
"""

from __future__ import annotations

from dataclasses import replace

from ...terms.scalar import conj
from ...terms.term import FOREVER, Load, TensorVar, Term, fresh, load
from ...terms.traversal import subterms, tensors
from ..effects.effects import Effects, Write
from ..tir.from_tir import Unliftable
from .fold import atom, close_together


def close_while(condition: Term, body: Effects) -> Effects:
    """Return the effects of the loop; ``condition`` is over the state before an iteration."""
    if tensors(condition).isdisjoint(body.writes):
        raise Unliftable("a while loop does not change its condition")
    i, out = fresh(FOREVER), Effects()
    group = {t: _only(t, writes) for t, writes in body.writes.items()}
    group = {t: replace(w, guard=conj(condition, w.guard)) for t, w in group.items()}
    states = {atom(load(t, w.index)) for t, w in group.items()}
    for w in group.values():
        _check(w, frozenset(group), states)
    places = {t: n for n, t in enumerate(group)}
    for t in group:
        out.writes[t] = [close_together(i, t, group, places)]
    return out


def _only(t: TensorVar, writes: list[Write]) -> Write:
    (w, *others) = writes
    if others or w.vars:
        raise Unliftable("a while loop stores in more than one element of a buffer", t.name)
    return w


def _check(w: Write, changing: frozenset[TensorVar], states: set[Term]) -> None:
    """Check that the elements that are stored are the only ones that change and are read."""
    if any(not tensors(e).isdisjoint(changing) for e in w.index):
        raise Unliftable("a while loop decides where to store while it runs")
    for part in (w.guard, w.value):
        for x in subterms(part):
            if isinstance(x, Load) and x.tensor in changing and x not in states:
                raise Unliftable("a while loop reads another element than it stores", x.tensor.name)
