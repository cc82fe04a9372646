"""A term without the literals in the indices of its loads, and those literals."""

from __future__ import annotations

from collections.abc import Callable

from ...terms.condition_terms import conj, ge0
from ...terms.reduction_terms import identity
from ...terms.term import (
    TRUE,
    CallTerm,
    Const,
    Int,
    Load,
    Reduce,
    TensorVar,
    Term,
    as_int,
    load,
)
from ...terms.traversal import free, map_loads, rebuild, subterms, tensors

Vector = tuple[int, ...]


def skeleton_of(
    op: str, term: Term, closed: bool = False
) -> tuple[Term, Vector, Term | None] | None:
    """The term without the literals in its loads' indices, if each tensor has one load.

    A selection of what is inside its tensors, and a literal outside, is taken without its
    condition; the last value is the literal, which is to be put back with it. What is always inside
    is a selection with the identity of the operation. With ``closed``, reductions inside that are
    one number for the whole term stay.
    """
    choice = isinstance(term, CallTerm) and term.op == "ite" and isinstance(term.args[2], Const)
    guard, value = (term.args[0], term.args[1]) if choice else (TRUE, term)  # type: ignore[attr-defined]
    outside: Term | None = None
    if guard is inside_tensors(value):
        outside = term.args[2] if choice else identity(op, term.dtype)  # type: ignore[attr-defined]
        term = value
    loads = open_loads(term, closed)
    if not loads or len({x.tensor for x in loads}) < len(loads):
        return None
    shift = {x.tensor: tuple(_literal(i) for i in x.indices) for x in loads}

    def read(tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        moved = zip(index, shift[tensor], strict=True)
        return load(tensor, tuple(i - k for i, k in moved))

    vector = tuple(k for x in loads for k in shift[x.tensor])
    return with_loads(term, read, closed), vector, outside


def _kept(term: Term, closed: bool) -> frozenset[Term]:
    """The reductions inside a term that are one number for all of its iterations."""
    inner = [s for s in subterms(term) if isinstance(s, Reduce)] if closed else []
    bound = frozenset(a for r in inner for a in r.axes)
    return frozenset(r for r in inner if r is not term and bound.isdisjoint(free(r)))


def open_loads(term: Term, closed: bool) -> list[Load]:
    """The loads of a term, by the position of their tensors; not those in reductions that stay."""
    kept, seen, found = _kept(term, closed), {term}, []
    stack = [term]
    while stack:
        current = stack.pop()
        if isinstance(current, Load):
            found.append(current)
        for child in current.children:
            if child not in seen and child not in kept:
                seen.add(child)
                stack.append(child)
    return sorted(found, key=lambda x: x.tensor.position)


def with_loads(
    term: Term, read: Callable[[TensorVar, tuple[Int, ...]], Term], closed: bool
) -> Term:
    """The term with its loads replaced, but those in reductions that stay."""
    kept = _kept(term, closed)
    if not kept:
        return map_loads(term, tensors(term), read)
    memo: dict[Term, Term] = dict(zip(kept, kept, strict=True))

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            if isinstance(term, Load):
                result = read(term.tensor, tuple(as_int(go(i)) for i in term.indices))
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


def inside_tensors(term: Term) -> Term:
    """Whether all its loads are inside their tensors."""
    loads = [s for s in subterms(term) if isinstance(s, Load)]
    pairs = [p for x in loads for p in zip(x.indices, x.tensor.shape, strict=True)]
    return conj(*(c for i, e in pairs for c in (ge0(i), ge0(e - 1 - i))))


def _literal(poly: Int) -> int:
    return next((c for m, c in poly.terms if not m), 0)
