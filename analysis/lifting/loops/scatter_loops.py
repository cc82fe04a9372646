"""Loops that store where data says: for each element, a fold over the iterations.

    for i in range(n): t[p[i]] = g(t[p[i]], i)

is, for each element ``t[y]``,

    for i in range(n): state = g(state, i) if p[i] == y else state

The last store wins, and updates keep their order. Coordinates that do not depend on i stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...proofs.prove import prove
from ...terms.condition_terms import conj, ge0, ite, parts
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
    bare,
    fresh,
    load,
    raw_call,
)
from ...terms.traversal import free, replace, tensors
from ..effects.effects import Effects, Write
from ..tir.unliftable import Unliftable
from .fold import make_fold
from .scan import Carried


def scatters(var: Var, write: Write) -> bool:
    """Return whether data decides where iteration i stores, so that two may share an element."""
    if not any((write.scattered or tensors(e)) and var in free(e) for e in write.index):
        return False
    return var not in Write((*write.vars, var), TRUE, write.index, TRUE).inverse


def by_data(index: Sequence[Int]) -> bool:
    """Return whether data decides where a store goes."""
    return any(map(tensors, index))


def close_scatter(
    var: Var, tensor: TensorVar, write: Write, body: Effects, carried: Carried
) -> Write:
    """Return the effect of all iterations on every element."""
    if any(not tensors(e).isdisjoint(body.writes) for e in write.index):
        raise Unliftable("a loop computes the address of its store", tensor.name)
    previous = bare(load(tensor, write.index))
    is_integer = tensor.dtype in INT_DTYPES
    state = raw_call(f"state {var.name}", (), "int" if is_integer else tensor.dtype)
    write = Write(
        write.vars,
        replace(write.guard, {previous: state}),
        write.index,
        replace(write.value, {previous: state}),
    )
    if carried(var, write, body):
        raise Unliftable("a scattered value depends on another scattered value", tensor.name)
    _check_inside(tensor, write)
    index = tuple(
        poly if var not in free(poly) else ZERO if extent is ONE else as_int(fresh(extent))
        for poly, extent in zip(write.index, tensor.shape, strict=True)
    )
    index_vars = frozenset[Var]().union(*map(free, index))
    condition, value = write.at(index, tensor.name)
    update = _chosen(condition, value, as_int(state) if isinstance(value, Int) else state)
    out = make_fold(var, (state,), (load(tensor, index),), (update,))
    elements = tuple(e.atom for e, old in zip(index, write.index, strict=True) if e is not old)
    coordinates = tuple(v for v in elements if isinstance(v, Var))
    spatial = (v for v in write.vars if v in index_vars)
    return Write((*spatial, *coordinates), TRUE, index, out, True)


def _chosen(condition: Term, value: Term, state: Term) -> Term:
    """``value if condition else state``, inside a fold at each of its steps."""
    term = bare(value)
    if not isinstance(term, Fold) or len(term.states) > 1 or bare(term.inits[0]) is not bare(state):
        return ite(condition, value, state)
    previous = as_int(term.states[0]) if isinstance(term.updates[0], Int) else term.states[0]
    return make_fold(
        term.axis, term.states, term.inits, (ite(condition, term.updates[0], previous),)
    )


def _check_inside(tensor: TensorVar, write: Write) -> None:
    """Check that a coordinate that data does not decide is inside; others are assumed to be."""
    for poly, extent in zip(write.index, tensor.shape, strict=True):
        inside = conj(ge0(poly), ge0(extent - 1 - poly))
        if (
            not tensors(poly)
            and inside is not TRUE
            and not prove(inside, parts(write.guard)).proved
        ):
            raise Unliftable("a store may be out of bounds", tensor.name)
