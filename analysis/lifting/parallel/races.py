"""Races: checks of parallel loops, threads and lanes, by the effects of whole iterations.

``shared`` are buffers that the iterations store in and that outlive them. Accesses inside an
iteration are the subject of `analysis.lifting.parallel.concurrent`.
"""

from __future__ import annotations

from ...terms.term import TensorVar, Var
from ...terms.traversal import free, tensors
from ..effects.effects import Effects, Write
from ..loops.loop_summary import carried_by
from ..loops.scatter_loops import scatters
from ..tir.unliftable import Unliftable

Shared = frozenset[TensorVar]


def meet_by_data(var: Var, effects: Effects, shared: Shared, parallel: bool) -> Shared:
    """Return the buffers in which concurrent iterations may store in one element, as data decides.

    A parallel loop has no meaning then, so the certificate assumes that they do not.
    """
    written = [(t, ws) for t, ws in effects.writes.items() if t in shared]
    racy = [t for t, ws in written if any(_meet(var, w) for w in ws)]
    if racy and not parallel:
        raise Unliftable("threads or lanes store at data-dependent addresses", racy[0].name)
    return frozenset(racy)


def combined_buffers(effects: Effects) -> Shared:
    """Return the buffers whose elements virtual threads update one after another."""
    return frozenset(
        tensor
        for tensor, writes in effects.writes.items()
        if any(tensor in tensors(w.value) for w in writes)
    )


def check_independent(var: Var, effects: Effects, shared: Shared, threads: bool) -> None:
    """Check that concurrent iterations do not store different values in one element.

    Threads may combine into one element: that is how a reduction is bound to them.
    """
    for tensor, writes in effects.writes.items():
        for write in writes:
            differs = var in free(write.value) or var in free(write.guard)
            if _meet(var, write):
                continue
            if threads and tensor in tensors(write.value):
                continue
            if tensor in shared and differs and not any(var in free(e) for e in write.index):
                raise Unliftable("parallel iterations store to the same element", tensor.name)


def check_no_scan(var: Var, effects: Effects) -> None:
    """Check that no lane reads what an earlier one stored: all lanes load before any stores."""
    for write in (w for writes in effects.writes.values() for w in writes):
        if carried_by(var, write, effects):
            raise Unliftable("vector lanes read each other's stores")


def _meet(var: Var, write: Write) -> bool:
    """Whether data decides if iterations of a loop store in one element."""
    inside = write.scattered and not any(var in free(e) for e in write.index)
    return scatters(var, write) or (
        inside and (var in free(write.value) or var in free(write.guard))
    )
