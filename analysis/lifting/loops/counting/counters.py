"""Counters that a loop adds the same number to, as functions of the loop variable.

    for i in range(n): out[p] = x[i]; p = p + c        out[p + c*i] = x[i]; at the end p + c*n

That is what strength reduction leaves of an index, and a pointer that is counted up.
"""

from __future__ import annotations

from collections.abc import Callable

from ....terms.term import TRUE, Int, TensorVar, Term, Var, as_int, bare, load, mul
from ....terms.traversal import free, tensors
from ...effects.effects import Effects, Write
from ...effects.loads import Index, loads_of, with_loads

#: Returns the effects of a loop over a variable, given those of an iteration.
Close = Callable[[Var, Effects], Effects]


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
        t: [with_loads(w, frozenset(steps), at_iteration) for w in ws]
        for t, ws in body.writes.items()
        if t not in steps
    }
    closed, out = close(var, others), Effects()
    for tensor, writes in closed.writes.items():
        out.writes[tensor] = [
            with_loads(w, frozenset(back), lambda t, index: load(back[t], index)) for w in writes
        ]
    for tensor, step in steps.items():
        (write,) = body.writes[tensor]
        value = as_int(load(tensor, write.index)) + mul(step, var.extent)
        out.writes[tensor] = [Write((), TRUE, write.index, value)]
    return out


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
    is_only_access = all(x is bare(element) for x in loads_of(tensor, body))
    return step if is_only_access else None
