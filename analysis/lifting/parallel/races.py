"""Iterations that run at the same time must not meet: checks of parallel loops, threads and lanes.

``shared`` are the buffers that the iterations store in and that outlive them. What is said here is
of the effects of whole iterations; see `analysis.lifting.parallel.concurrent` for what happens
inside of them.
"""

from __future__ import annotations

from ...terms.term import TensorVar, Var
from ...terms.traversal import free, tensors
from ..effects.effects import Effects, Write
from ..loops.close import carried_by
from ..loops.scatter_loops import scatters
from ..tir.from_tir import Unliftable

Shared = frozenset[TensorVar]


def meet_by_data(i: Var, effects: Effects, shared: Shared, parallel: bool) -> Shared:
    """Buffers of which iterations that run at the same time may store in one element, as data says.

    A parallel loop has no meaning then, so it is assumed that they do not, and told.
    """
    written = [(t, ws) for t, ws in effects.writes.items() if t in shared]
    found = [t for t, ws in written if any(_meet(i, w) for w in ws)]
    if found and not parallel:
        raise Unliftable("threads or lanes store where data says", found[0].name)
    return frozenset(found)


def combined(effects: Effects) -> Shared:
    """Buffers whose elements virtual threads update, one after another in each statement."""
    return frozenset(
        t for t, writes in effects.writes.items() if any(t in tensors(w.value) for w in writes)
    )


def check_independent(i: Var, effects: Effects, shared: Shared, threads: bool) -> None:
    """Iterations that run at the same time must not store different values in one element.

    Threads may combine into one element: that is how a reduction is bound to them.
    """
    for t, writes in effects.writes.items():
        for w in writes:
            differs = i in free(w.value) or i in free(w.guard)
            if _meet(i, w):
                continue
            if threads and t in tensors(w.value):
                continue
            if t in shared and differs and not any(i in free(e) for e in w.index):
                raise Unliftable("parallel iterations store into the same element", t.name)


def check_no_scan(i: Var, effects: Effects) -> None:
    """Lanes load before any of them stores: none may read what an earlier one stored."""
    for w in (w for writes in effects.writes.values() for w in writes):
        if carried_by(i, w, effects):
            raise Unliftable("vector lanes read each other's stores")


def _meet(i: Var, w: Write) -> bool:
    """Whether data decides if iterations of a loop store in one element."""
    inside = w.scattered and not any(i in free(e) for e in w.index)
    return scatters(i, w) or (inside and (i in free(w.value) or i in free(w.guard)))
