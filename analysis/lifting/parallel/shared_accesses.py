"""Accesses of concurrent iterations or threads, and whether two of them can collide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...proofs.prove import prove
from ...terms.condition_terms import eq0, parts
from ...terms.term import (
    FALSE,
    ONE,
    SIZES,
    TRUE,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    variable,
)
from ...terms.traversal import free, ints, substitute, tensors
from ..effects.effects import Write, coordinates
from ..tir.unliftable import Unliftable

Index = tuple[Int, ...]
#: The position of a statement: which part of which sequence, or under which condition on which
#: threads differ, from the outermost to the innermost.
Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SharedAccess:
    """A load or store of an element that threads share; ``guard`` is its whole condition.

    ``loops`` are the variables of the loops around it inside the kernel.
    """

    tensor: TensorVar
    index: Index
    path: Path = ()
    guard: Term = TRUE
    varies: frozenset[Var] = frozenset()
    value: Term | None = None  # the stored value
    covered: bool = False  # a load of an element that the same iteration has stored
    loops: frozenset[Var] = frozenset()
    follows: bool = False  # a load after a store to the buffer in program order

    def at_any_time(self, changing: frozenset[TensorVar]) -> SharedAccess:
        """Return the access, with an unknown for each coordinate that reads changing memory."""
        index = tuple(e if changing.isdisjoint(tensors(e)) else _unknown() for e in self.index)
        return self if index == self.index else replace(self, index=index)


def _unknown() -> Int:
    return as_int(variable("free", fresh(ONE, "u").name))


def family(store: SharedAccess, around: frozenset[Var]) -> tuple[Write, dict[Var, Int]]:
    """Return the store by another iteration, and the names of its variables there.

    ``around`` are variables with the same value in both iterations.
    """
    parts = (*store.index, store.guard, *(() if store.value is None else (store.value,)))
    variables = {v for p in parts for v in free(p) if v.kind not in SIZES} - around
    ordered = sorted(variables, key=lambda var: var.uid)
    renaming = {v: as_int(fresh(v.extent)) if v.extent is not None else _unknown() for v in ordered}
    index = tuple(ints(p, renaming) for p in store.index)
    renamed = frozenset[Var]().union(*map(free, index)) & {p.atom for p in renaming.values()}
    return Write(tuple(sorted(renamed, key=lambda var: var.uid)), TRUE, index, TRUE), renaming


def is_owned(
    store: SharedAccess, access: SharedAccess, var: Var, around: frozenset[Var] = frozenset()
) -> bool:
    """Return whether no other thread stores an element that ``var`` accesses."""
    write, renaming = family(store, around)
    owner, index = renaming.get(var), access.index
    inverse = None if owner is None else write.inverse.get(owner.atom)  # type: ignore[call-overload]
    if inverse is not None:
        values = dict(zip(coordinates(len(index)), index, strict=True))
        if ints(inverse, values) is as_int(var):
            return True
    try:
        if write.at(index, "")[0] is FALSE:
            return True
    except Unliftable:
        pass
    return (
        owner is not None
        and prove(eq0(owner - as_int(var)), collision_facts(write, renaming, store, access)).proved
    )


def collision_facts(
    write: Write, renaming: Mapping[Var, Int], store: SharedAccess, access: SharedAccess
) -> list[Term]:
    """Return the facts that hold if a store by another iteration and an access share an element.

    The conditions of both accesses may imply more than the indices do.
    """
    facts = [eq0(a - b) for a, b in zip(write.index, access.index, strict=True)]
    facts += parts(substitute(store.guard, renaming))
    facts += parts(access.guard)
    return [c for c in facts if not tensors(c)]
