"""Loads in the writes of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...terms.term import Int, Load, TensorVar, Term, as_int
from ...terms.traversal import map_loads, subterms, tensors
from .effects import Effects, Write

Index = tuple[Int, ...]


def loads_of(tensor: TensorVar, effects: Effects) -> Iterator[Load]:
    """Yield the loads of a tensor in the guards, indices and values of writes."""
    for write in (w for writes in effects.writes.values() for w in writes):
        for part in (write.guard, *write.index, write.value):
            if tensor in tensors(part):
                for term in subterms(part):
                    if isinstance(term, Load) and term.tensor is tensor:
                        yield term


def with_loads(
    write: Write, selected: frozenset[TensorVar], fn: Callable[[TensorVar, Index], Term]
) -> Write:
    """Return a write with the loads of some tensors replaced.

    Args:
        write: The write.
        selected: The tensors.
        fn: Returns what is read instead of an element of such a tensor.
    """

    def go(term: Term) -> Term:
        new = map_loads(term, selected, fn)
        return as_int(new) if isinstance(term, Int) else new

    index = tuple(as_int(go(e)) for e in write.index)
    return Write(
        write.vars, go(write.guard), index, go(write.value), write.scattered,
        distinct=write.distinct,
    )  # fmt: skip
