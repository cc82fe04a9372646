"""Traversals: rebuild a term through the smart constructors, free variables, sub-terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any

from .reduction_terms import reduce
from .scalar import call
from .term import (
    Fold,
    Int,
    Load,
    Mono,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    fold,
    fresh,
    load,
    mul,
    polynomial,
    raw_call,
    raw_reduce,
)
from .term.work_budget import spend


def children(term: Term) -> tuple[Term, ...]:
    return term.children


def rebuild(term: Term, go: Callable[[Term], Term]) -> Term:
    """Return the term with ``go`` applied to its children."""
    spend(1)
    if isinstance(term, Int):
        return _rebuild_int(term, go)
    new = tuple([go(c) for c in term.children])
    if all(map(is_, new, term.children)):
        return term
    if isinstance(term, Load):
        return load(term.tensor, tuple(map(as_int, new)))
    if isinstance(term, Reduce):
        return reduce(term.op, term.axes, new[0], new[1], term.dtype)
    if isinstance(term, Fold):
        count = len(term.updates)
        return fold(term.axis, term.states, new[count:], new[:count])
    if term.op in ("floordiv_any", "floormod_any"):  # type: ignore[attr-defined]
        from .integer import floordiv, floormod

        divide = floordiv if term.op == "floordiv_any" else floormod  # type: ignore[attr-defined]
        return divide(as_int(new[0]), as_int(new[1]))
    return call(term.op, new, term.dtype)  # type: ignore[attr-defined]


def _rebuild_int(poly: Int, go: Callable[[Term], Term]) -> Int:
    new = [go(a) for a in poly.children]
    if all(map(is_, new, poly.children)):
        return poly
    out: dict[Mono, int] = {}
    remaining = iter(new)
    for mono, coef in poly.terms:
        atoms = [next(remaining) for _ in mono]
        if all(map(is_, atoms, mono)):
            out[mono] = out.get(mono, 0) + coef
            continue
        part = as_int(atoms[0])
        for atom in atoms[1:]:
            part = mul(part, as_int(atom))
        for terms, factor in part.terms:
            out[terms] = out.get(terms, 0) + factor * coef
    return polynomial(out)


_NOTHING: frozenset[Any] = frozenset()


def free(term: Term) -> frozenset[Var]:
    """Return the variables that occur and are not bound by a reduction inside."""
    variables = term.free
    if variables is None:
        if isinstance(term, Var):  # not cached, because the cache would keep the variable alive
            return frozenset((term,))
        variables = _NOTHING.union(*map(free, term.children))
        if isinstance(term, Reduce):
            variables = (variables - frozenset(term.axes)) | free(term.init)
            variables = variables.union(
                *(free(a.extent) for a in term.axes if a.extent is not None)
            )
        elif isinstance(term, Fold):
            assert term.axis.extent is not None
            variables = (variables - {term.axis}).union(
                free(term.axis.extent), *map(free, term.inits)
            )
        term.free = variables
    return variables


def substitute(term: Term, mapping: Mapping[Var, Term]) -> Term:
    """Return the term with its free variables replaced.

    A reduction or fold that binds a variable of the mapping, replaced or in a value, gets an axis
    of its own: what it binds is another variable.
    """
    if not mapping:
        return term
    memo: dict[Term, Term] = {}
    keys = frozenset(mapping)

    def go(term: Term) -> Term:
        if isinstance(term, Var):
            return mapping.get(term, term)
        if keys.isdisjoint(free(term)):
            return term
        result = memo.get(term)
        if result is None:
            if isinstance(term, (Reduce, Fold)):
                taken = keys.union(*map(free, mapping.values()))
                if isinstance(term, Reduce):
                    result = _substitute_reduction(_apart(term, taken), go)
                else:
                    result = _substitute_fold(term, go, taken)
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


def _apart(reduction: Reduce, taken: frozenset[Var]) -> Reduce:
    """The reduction over other axes than the variables that are taken."""
    if taken.isdisjoint(reduction.axes):
        return reduction
    new = {a: fresh(a.extent, "r") for a in reduction.axes if a in taken and a.extent is not None}
    body = substitute(reduction.body, {a: as_int(b) for a, b in new.items()})
    axes = tuple(new.get(a, a) for a in reduction.axes)
    return raw_reduce(reduction.op, axes, body, reduction.init, reduction.dtype)


def _substitute_reduction(reduction: Reduce, go: Callable[[Term], Term]) -> Term:
    """A reduction under substitution; extents with a replaced variable change too."""
    axes, renamed = [], {}
    for var in reduction.axes:
        assert var.extent is not None
        extent = as_int(go(var.extent))
        if extent is var.extent:
            axes.append(var)
        else:
            axes.append(fresh(extent, "r"))
            renamed[var] = as_int(axes[-1])
    body = go(reduction.body)
    return reduce(
        reduction.op, tuple(axes), substitute(body, renamed), go(reduction.init), reduction.dtype
    )


def _substitute_fold(loop: Fold, go: Callable[[Term], Term], taken: frozenset[Var]) -> Term:
    """A fold under substitution, over another axis than the variables that are taken."""
    assert loop.axis.extent is not None
    if loop.axis in taken:
        axis = fresh(loop.axis.extent, "r")
        mapping = {loop.axis: as_int(axis)}
        updates = tuple(substitute(u, mapping) for u in loop.updates)
        new = fold(axis, loop.states, loop.inits, updates)
        return go(new)
    extent = as_int(go(loop.axis.extent))
    new = rebuild(loop, go)
    atom = new.atom if isinstance(new, Int) else new
    if extent is loop.axis.extent or not isinstance(atom, Fold):
        return new
    axis = fresh(extent, "r")
    mapping = {loop.axis: as_int(axis)}
    return fold(axis, atom.states, atom.inits, tuple(substitute(u, mapping) for u in atom.updates))


def replace(term: Term, mapping: Mapping[Any, Term]) -> Term:
    """Return the term with sub-terms replaced; states that a fold binds stay."""
    memo: dict[Term, Term] = dict(mapping)

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            if isinstance(term, Fold) and not mapping.keys().isdisjoint(term.states):
                result = fold(term.axis, term.states, tuple(map(go, term.inits)), term.updates)
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


def ints(term: Term, mapping: Mapping[Var, Term]) -> Int:
    """Return `substitute` on an integer."""
    return as_int(substitute(term, mapping))


def subterms(term: Term) -> Iterator[Term]:
    """Yield every distinct sub-term, the term itself first."""
    seen = {term}
    stack = [term]
    while stack:
        current = stack.pop()
        yield current
        for child in current.children:
            if child not in seen:
                seen.add(child)
                stack.append(child)


def tensors(term: Term) -> frozenset[TensorVar]:
    """Return the tensors that are read."""
    return term.reads


def map_loads(
    term: Term, selected: frozenset[TensorVar], fn: Callable[[TensorVar, tuple[Int, ...]], Term]
) -> Term:
    """Return the term with loads of the `selected` tensors replaced, innermost first."""
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        if selected.isdisjoint(tensors(term)):
            return term
        result = memo.get(term)
        if result is None:
            if isinstance(term, Load) and term.tensor in selected:
                result = fn(term.tensor, tuple(as_int(go(i)) for i in term.indices))
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


__all__ = [
    "children",
    "free",
    "ints",
    "map_loads",
    "raw_call",
    "rebuild",
    "replace",
    "substitute",
    "subterms",
    "tensors",
]
