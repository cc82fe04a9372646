"""Iterations that run at the same time must not meet: checks of parallel loops, threads and lanes.

``shared`` are the buffers that the iterations store in and that outlive them.
"""

from __future__ import annotations

from ..terms.rewrite import free, subterms, tensors
from ..terms.term import Load, Tensor, Var
from .effects import Effects, Write, own_only
from .from_tir import Unliftable
from .loops import carried_by
from .scatter import scatters

Shared = frozenset[Tensor]


def meet_by_data(i: Var, effects: Effects, shared: Shared, parallel: bool) -> bool:
    """Iterations that run at the same time and store where data says may store in one element.

    A parallel loop has no meaning then, so it is assumed that they do not, and told.
    """
    found = [t for t in shared if any(_meet(i, w) for w in effects.writes[t])]
    if found and not parallel:
        raise Unliftable("threads or lanes store where data says", found[0].name)
    return bool(found)


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


def check_own(i: Var, effects: Effects, shared: Shared, threads: bool) -> None:
    """Iterations that run at the same time must not read what another one of them stores."""
    for t, writes in effects.writes.items():
        for w in writes:
            for x in (s for p in (w.value, w.guard, *w.index) for s in subterms(p)):
                if not isinstance(x, Load) or x.tensor not in shared:
                    continue
                if (threads or _meet(i, w)) and x.tensor is t and x.indices == w.index:
                    continue
                if not all(own_only(o, i, x.indices, t.name) for o in effects.writes[x.tensor]):
                    raise Unliftable("parallel iterations read each other's stores", t.name)


def check_stored_once(i: Var, effects: Effects, shared: Shared) -> None:
    """No statement may store into an element that another one of another iteration stores."""
    for t in shared:
        writes = effects.writes[t]
        for n, w in enumerate(writes):
            # A store that hides another one of its iteration must not hide one of another.
            others = writes if t in effects.hidden and not _meet(i, w) else writes[:n]
            if not all(own_only(o, i, w.index, t.name) for o in others):
                raise Unliftable("parallel iterations store over each other's stores", t.name)


def check_no_scan(i: Var, effects: Effects) -> None:
    """Lanes load before any of them stores: none may read what an earlier one stored."""
    for w in (w for writes in effects.writes.values() for w in writes):
        if carried_by(i, w, effects):
            raise Unliftable("vector lanes read each other's stores")


def _meet(i: Var, w: Write) -> bool:
    """Whether data decides if iterations of a loop store in one element."""
    inside = w.scattered and not any(i in free(e) for e in w.index)
    return scatters(i, w) or (inside and (i in free(w.value) or i in free(w.guard)))
