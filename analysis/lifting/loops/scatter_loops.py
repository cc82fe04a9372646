"""Loops that store where data says: for each element, a fold over the iterations.

    for i in range(n): t[p[i]] = g(t[p[i]], i)

is, for each element ``t[y]``,

    for i in range(n): state = g(state, i) if p[i] == y else state

The last store wins, and updates keep their order. Coordinates that do not depend on i stay.
"""

from __future__ import annotations

from ...proofs.prove import prove
from ...terms.scalar import conj, ge0, ite, parts
from ...terms.term import (
    INT_DTYPES,
    ONE,
    TRUE,
    ZERO,
    Fold,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    load,
    raw_call,
)
from ...terms.traversal import free, replace, tensors
from ..effects.effects import Effects, Write
from ..tir.from_tir import Unliftable
from .fold import atom, make
from .scan import Carried


def scatters(i: Var, w: Write) -> bool:
    """Return whether data decides where iteration i stores, so that two may share an element."""
    if not any((w.scattered or tensors(e)) and i in free(e) for e in w.index):
        return False
    return i not in Write((*w.vars, i), TRUE, w.index, TRUE).inverse


def close_scatter(i: Var, tensor: TensorVar, w: Write, body: Effects, carried: Carried) -> Write:
    """Return the effect of all iterations on every element."""
    if any(not tensors(e).isdisjoint(body.writes) for e in w.index):
        raise Unliftable("a loop decides where to store while it runs", tensor.name)
    previous = atom(load(tensor, w.index))
    is_integer = tensor.dtype in INT_DTYPES
    state = raw_call(f"state {i.name}", (), "int" if is_integer else tensor.dtype)
    w = Write(
        w.vars, replace(w.guard, {previous: state}), w.index, replace(w.value, {previous: state})
    )
    if carried(i, w, body):
        raise Unliftable("a scattered value depends on another scattered one", tensor.name)
    _check_inside(tensor, w)
    index = tuple(
        e if i not in free(e) else ZERO if extent is ONE else as_int(fresh(extent))
        for e, extent in zip(w.index, tensor.shape, strict=True)
    )
    kept = frozenset[Var]().union(*map(free, index))
    condition, value = w.at(index, tensor.name)
    update = _chosen(condition, value, as_int(state) if isinstance(value, Int) else state)
    out = make(i, (state,), (load(tensor, index),), (update,))
    elements = tuple(e.atom for e, old in zip(index, w.index, strict=True) if e is not old)
    coordinates = tuple(v for v in elements if isinstance(v, Var))
    return Write((*(v for v in w.vars if v in kept), *coordinates), TRUE, index, out, True)


def _chosen(condition: Term, value: Term, state: Term) -> Term:
    """``value if condition else state``, inside a fold at each of its steps."""
    f = atom(value)
    if not isinstance(f, Fold) or len(f.states) > 1 or atom(f.inits[0]) is not atom(state):
        return ite(condition, value, state)
    previous = as_int(f.states[0]) if isinstance(f.updates[0], Int) else f.states[0]
    return make(f.axis, f.states, f.inits, (ite(condition, f.updates[0], previous),))


def _check_inside(tensor: TensorVar, w: Write) -> None:
    """Check that a coordinate that data does not decide is inside; others are assumed to be."""
    for e, extent in zip(w.index, tensor.shape, strict=True):
        inside = conj(ge0(e), ge0(extent - 1 - e))
        if not tensors(e) and inside is not TRUE and not prove(inside, parts(w.guard)).proved:
            raise Unliftable("a store may be outside its buffer", tensor.name)
