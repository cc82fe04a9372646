"""Traversals: rebuild a term through the smart constructors, free variables, sub-terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any

from .scalar import call, reduce
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
)
from .work import spend


def children(t: Term) -> tuple[Term, ...]:
    return t.children


def rebuild(t: Term, go: Callable[[Term], Term]) -> Term:
    """Return the term with ``go`` applied to its children."""
    spend(1)
    if isinstance(t, Int):
        return _rebuild_int(t, go)
    new = tuple([go(c) for c in t.children])
    if all(map(is_, new, t.children)):
        return t
    if isinstance(t, Load):
        return load(t.tensor, tuple(map(as_int, new)))
    if isinstance(t, Reduce):
        return reduce(t.op, t.axes, new[0], new[1], t.dtype)
    if isinstance(t, Fold):
        count = len(t.updates)
        return fold(t.axis, t.states, new[count:], new[:count])
    if t.op in ("floordiv_any", "floormod_any"):  # type: ignore[attr-defined]
        from .integer import floordiv, floormod

        divide = floordiv if t.op == "floordiv_any" else floormod  # type: ignore[attr-defined]
        return divide(as_int(new[0]), as_int(new[1]))
    return call(t.op, new, t.dtype)  # type: ignore[attr-defined]


def _rebuild_int(t: Int, go: Callable[[Term], Term]) -> Int:
    new = [go(a) for a in t.children]
    if all(map(is_, new, t.children)):
        return t
    out: dict[Mono, int] = {}
    remaining = iter(new)
    for mono, coef in t.terms:
        atoms = [next(remaining) for _ in mono]
        if all(map(is_, atoms, mono)):
            out[mono] = out.get(mono, 0) + coef
            continue
        part = as_int(atoms[0])
        for atom in atoms[1:]:
            part = mul(part, as_int(atom))
        for m, c in part.terms:
            out[m] = out.get(m, 0) + c * coef
    return polynomial(out)


_NOTHING: frozenset[Any] = frozenset()


def free(t: Term) -> frozenset[Var]:
    """Return the variables that occur and are not bound by a reduction inside."""
    variables = t.free
    if variables is None:
        if isinstance(t, Var):  # not cached, because the cache would keep the variable alive
            return frozenset((t,))
        variables = _NOTHING.union(*map(free, t.children))
        if isinstance(t, Reduce):
            variables = (variables - frozenset(t.axes)) | free(t.init)
            variables = variables.union(*(free(a.extent) for a in t.axes if a.extent is not None))
        elif isinstance(t, Fold):
            assert t.axis.extent is not None
            variables = (variables - {t.axis}).union(free(t.axis.extent), *map(free, t.inits))
        t.free = variables
    return variables


def substitute(t: Term, mapping: Mapping[Var, Term]) -> Term:
    """Return the term with variables replaced; bound variables must not occur in the values."""
    if not mapping:
        return t
    memo: dict[Term, Term] = {}
    keys = frozenset(mapping)

    def go(s: Term) -> Term:
        if isinstance(s, Var):
            return mapping.get(s, s)
        if keys.isdisjoint(free(s)):
            return s
        result = memo.get(s)
        if result is None:
            if isinstance(s, Reduce):
                result = _bound(s, go)
            else:
                result = _bound_fold(s, go) if isinstance(s, Fold) else rebuild(s, go)
            memo[s] = result
        return result

    return go(t)


def _bound(s: Reduce, go: Callable[[Term], Term]) -> Term:
    """A reduction under substitution; extents with a replaced variable change too."""
    axes, renamed = [], {}
    for a in s.axes:
        assert a.extent is not None
        extent = as_int(go(a.extent))
        if extent is a.extent:
            axes.append(a)
        else:
            axes.append(fresh(extent, "r"))
            renamed[a] = as_int(axes[-1])
    body = go(s.body)
    return reduce(s.op, tuple(axes), substitute(body, renamed), go(s.init), s.dtype)


def _bound_fold(s: Fold, go: Callable[[Term], Term]) -> Term:
    """A fold under substitution."""
    assert s.axis.extent is not None
    extent = as_int(go(s.axis.extent))
    new = rebuild(s, go)
    atom = new.atom if isinstance(new, Int) else new
    if extent is s.axis.extent or not isinstance(atom, Fold):
        return new
    axis = fresh(extent, "r")
    at = {s.axis: as_int(axis)}
    return fold(axis, atom.states, atom.inits, tuple(substitute(u, at) for u in atom.updates))


def replace(t: Term, mapping: Mapping[Any, Term]) -> Term:
    """Return the term with sub-terms replaced; states that a fold binds stay."""
    memo: dict[Term, Term] = dict(mapping)

    def go(s: Term) -> Term:
        result = memo.get(s)
        if result is None:
            if isinstance(s, Fold) and not mapping.keys().isdisjoint(s.states):
                result = fold(s.axis, s.states, tuple(map(go, s.inits)), s.updates)
            else:
                result = rebuild(s, go)
            memo[s] = result
        return result

    return go(t)


def ints(p: Term, mapping: Mapping[Var, Term]) -> Int:
    """Return `substitute` on an integer."""
    return as_int(substitute(p, mapping))


def subterms(t: Term) -> Iterator[Term]:
    """Yield every distinct sub-term, the term itself first."""
    seen = {t}
    stack = [t]
    while stack:
        s = stack.pop()
        yield s
        for c in s.children:
            if c not in seen:
                seen.add(c)
                stack.append(c)


def tensors(t: Term) -> frozenset[TensorVar]:
    """Return the tensors that are read."""
    return t.reads


def map_loads(
    t: Term, wanted: frozenset[TensorVar], fn: Callable[[TensorVar, tuple[Int, ...]], Term]
) -> Term:
    """Return the term with loads of the `wanted` tensors replaced, innermost first."""
    memo: dict[Term, Term] = {}

    def go(s: Term) -> Term:
        if wanted.isdisjoint(tensors(s)):
            return s
        result = memo.get(s)
        if result is None:
            if isinstance(s, Load) and s.tensor in wanted:
                result = fn(s.tensor, tuple(as_int(go(i)) for i in s.indices))
            else:
                result = rebuild(s, go)
            memo[s] = result
        return result

    return go(t)


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
