"""Accesses of concurrent iterations to memory that they share.

Every load and store of a parallel loop is recorded as the statements have them, not as effects. An
iteration's effects hide an element that it stores and loads again, but another iteration may store
there in between. An element that one iteration stores must not be accessed by another, unless

- every store into the buffer stores one value in each element, whatever the iteration, and
- an iteration loads it only after a store of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from ...proofs.context import simplify
from ...proofs.equal import prove_equal
from ...proofs.pairing import Different
from ...terms.condition_terms import conj
from ...terms.term import TensorVar, Term, Var
from ...terms.traversal import substitute, tensors
from ..effects.effects import Effects
from ..tir.unliftable import Unliftable
from .shared_accesses import Index, SharedAccess, collision_facts, family, is_owned


@dataclass
class Iterations:
    """The accesses of one iteration of a loop whose iterations run concurrently."""

    around: frozenset[Var]  # variables of enclosing loops: the same in all iterations
    depth: int  # the number of frames outside
    accesses: dict[SharedAccess, None] = field(default_factory=dict)

    def store(self, tensor: TensorVar, index: Index, value: Term, facts: Sequence[Term]) -> None:
        """Record a store."""
        self.accesses[SharedAccess(tensor, index, guard=conj(*facts), value=value)] = None

    def read(
        self, tensor: TensorVar, index: Index, facts: Sequence[Term], frames: Sequence[Effects]
    ) -> None:
        """Record a load, and whether the iteration has stored the element before."""
        fixed = not any(map(tensors, index))
        covered = fixed and any(_stored(f, tensor, index, facts) for f in frames[self.depth :])
        self.accesses[SharedAccess(tensor, index, guard=conj(*facts), covered=covered)] = None

    def check(self, var: Var, shared: frozenset[TensorVar], assumed: frozenset[TensorVar]) -> None:
        """Refuse accesses of different iterations to one element.

        Stores into the ``assumed`` buffers do not collide for other reasons, nor do loads of
        elements that the same iteration stored there.
        """
        changing = frozenset(a.tensor for a in self.accesses if a.value is not None)
        recorded = [a.at_any_time(changing) for a in self.accesses if a.tensor in shared & changing]
        for store, access in _pairs(recorded):
            if store.tensor in assumed and (
                access.value is not None or access.index == store.index
            ):
                continue
            if not (
                is_owned(store, access, var, self.around)
                or self.one_value(store.tensor, recorded, changing)
            ):
                raise Unliftable(
                    "parallel iterations access each other's elements", store.tensor.name
                )

    def one_value(
        self,
        tensor: TensorVar,
        recorded: Sequence[SharedAccess],
        changing: frozenset[TensorVar],
    ) -> bool:
        """Whether all stores into an element store the same, and loads come after one of them."""
        accesses = [a for a in recorded if a.tensor is tensor]
        if not accesses or not all(a.covered for a in accesses if a.value is None):
            return False
        stores = [a for a in accesses if a.value is not None]
        inputs = frozenset(t for a in stores if a.value is not None for t in tensors(a.value))
        others = [a for a in recorded if a.tensor is not tensor]
        if not all(self.one_value(t, others, changing) for t in inputs & changing):
            return False
        return all(self.equal(w, a) for w, a in combinations_with_replacement(stores, 2))

    def equal(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Return whether two stores of any iterations into one element store the same value."""
        assert first.value is not None and second.value is not None
        write, renaming = family(first, self.around)
        value = substitute(first.value, renaming)
        facts = tuple(collision_facts(write, renaming, first, second))
        try:
            return not prove_equal(value, second.value, facts).reassociated
        except Different:
            return False


def _pairs(accesses: Sequence[SharedAccess]) -> Iterator[tuple[SharedAccess, SharedAccess]]:
    """Each store with each access to its buffer; each pair of stores once."""
    for n, access in enumerate(accesses):
        if access.value is not None:
            others = (a for m, a in enumerate(accesses) if a.value is None or m <= n)
            yield from ((access, a) for a in others if a.tensor is access.tensor)


def _stored(frame: Effects, tensor: TensorVar, index: Index, facts: Sequence[Term]) -> bool:
    if tensor not in frame.writes:
        return False
    try:
        return tensor not in tensors(simplify(frame.read(tensor, index), tuple(facts)))
    except Unliftable:
        return False
