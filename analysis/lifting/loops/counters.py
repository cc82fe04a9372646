"""Counters that a loop adds the same number to, as functions of the loop variable.

    for i in range(n): out[p] = x[i]; p = p + c        out[p + c*i] = x[i]; at the end p + c*n

That is what strength reduction leaves of an index, and a pointer that is counted up.
"""

from __future__ import annotations

from collections.abc import Callable

from ...terms.term import TRUE, Int, Load, TensorVar, Term, Var, as_int, bare, load, mul
from ...terms.traversal import free, map_loads, subterms, tensors
from ..effects.effects import Effects, Write

Close = Callable[[Var, Effects], Effects]
Index = tuple[Int, ...]


def without_counters(var: Var, body: Effects, close: Close) -> Effects | None:
    """Return the effects of a loop with counters; None if it has none.

    Args:
        var: The loop variable.
        body: The effects of one iteration.
        close: Returns the effects of a loop without counters.
    """
    steps = {t: step for t in body.writes if (step := _step(var, t, body)) is not None}
    if not steps or var.extent is None:
        return None
    before = {t: TensorVar(t.name, t.shape, t.dtype) for t in steps}
    back = {new: old for old, new in before.items()}

    def at_iteration(tensor: TensorVar, index: Index) -> Term:
        return as_int(load(before[tensor], index)) + mul(steps[tensor], as_int(var))

    others = Effects()
    others.writes = {
        t: [mapped(w, frozenset(steps), at_iteration) for w in ws]
        for t, ws in body.writes.items()
        if t not in steps
    }
    closed, out = close(var, others), Effects()
    for tensor, writes in closed.writes.items():
        out.writes[tensor] = [
            mapped(w, frozenset(back), lambda t, index: load(back[t], index)) for w in writes
        ]
    for tensor, step in steps.items():
        (write,) = body.writes[tensor]
        value = as_int(load(tensor, write.index)) + mul(step, var.extent)
        out.writes[tensor] = [Write((), TRUE, write.index, value)]
    return out


def mapped(
    write: Write, selected: frozenset[TensorVar], fn: Callable[[TensorVar, Index], Term]
) -> Write:
    """Return a write with the loads of some tensors replaced."""

    def go(term: Term) -> Term:
        return map_loads(term, selected, fn)

    index = tuple(as_int(go(e)) for e in write.index)
    value = as_int(go(write.value)) if isinstance(write.value, Int) else go(write.value)
    return Write(
        write.vars, go(write.guard), index, value, write.scattered, distinct=write.distinct
    )


def _step(var: Var, tensor: TensorVar, body: Effects) -> Int | None:
    """The number that each iteration adds to the only element that the loop accesses."""
    write, *others = body.writes[tensor]
    if others or write.vars or write.guard is not TRUE or not isinstance(write.value, Int):
        return None
    if any(var in free(e) or tensors(e) for e in write.index):
        return None
    element = load(tensor, write.index)
    step = write.value - as_int(element)
    if var in free(step) or not tensors(step).isdisjoint(body.writes):
        return None
    return step if _only_access(bare(element), tensor, body) else None


def _only_access(element: Term, tensor: TensorVar, body: Effects) -> bool:
    terms = (x for ws in body.writes.values() for w in ws for x in (w.guard, *w.index, w.value))
    return all(
        s is element
        for x in terms
        if tensor in tensors(x)
        for s in subterms(x)
        if isinstance(s, Load) and s.tensor is tensor
    )
