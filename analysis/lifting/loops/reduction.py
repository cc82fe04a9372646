"""A normal form for reductions, independent of the loops they came from.

- an axis of extent 1 or pinned by the guard is dropped; a guard on one axis shrinks its extent;
- axes that only occur as one mixed-radix number are fused; an axis that only occurs through its
  digits is split;
- a sum of one integer is a count;
- axes are renamed by nesting height and order, so alpha-equal terms are the same object.
"""

from __future__ import annotations

from ...terms.condition_terms import conj, ite, parts
from ...terms.order import nonneg
from ...terms.reduction_terms import identity, reduce, split_guard
from ...terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Fold,
    Int,
    Reduce,
    Term,
    Var,
    as_int,
    fresh,
)
from ...terms.traversal import free, rebuild, substitute
from .bound_variables import reduces, rename_bound
from .counting.counting_loops import closed_form
from .fold_window import windowed
from .prefix import drop_choice, joined, unpeel
from .reduction_axes import fuse_axes, split_axis


def canonical(term: Term) -> Term:
    """Return the term with all its reductions in normal form."""
    memo: dict[Term, Term] = {}
    if not reduces(term):
        return term

    def go(term: Term) -> Term:
        if not reduces(term):
            return term
        result = memo.get(term)
        if result is None:
            merged = drop_choice(term) if isinstance(term, CallTerm) and term.op == "ite" else None
            result = rebuild(term, go) if merged is None else go(merged)
            atom = result.atom if isinstance(result, Int) else result
            if isinstance(term, Reduce) and isinstance(atom, Reduce):
                result = normal(atom)
            elif isinstance(atom, Fold) and (shorter := windowed(atom)) is not None:
                result = as_int(shorter) if isinstance(result, Int) else shorter
            memo[term] = result
        return result

    return rename_bound(go(term))


def normal(reduction: Reduce) -> Term:
    """Return a reduction in normal form; its children already are."""
    for _ in range(16):  # bounded, in case two rules undo each other
        new = (
            closed_form(reduction)
            or _unit(reduction)
            or unpeel(reduction)
            or joined(reduction)
            or _shrink(reduction)
            or fuse_axes(reduction)
            or split_axis(reduction)
        )
        if new is None:
            return as_int(reduction) if isinstance(reduction.body, Int) else reduction
        atom = new.atom if isinstance(new, Int) else new
        if not isinstance(atom, Reduce):
            return new
        reduction = atom
    return as_int(reduction) if isinstance(reduction.body, Int) else reduction


def _unit(reduction: Reduce) -> Term | None:
    axes = tuple(a for a in reduction.axes if a.extent is not ONE)
    if len(axes) == len(reduction.axes):
        return None
    body = substitute(reduction.body, {a: ZERO for a in reduction.axes if a.extent is ONE})
    return reduce(reduction.op, axes, body, reduction.init, reduction.dtype)


def _shrink(reduction: Reduce) -> Term | None:
    """Turn ``a >= lo`` and ``a <= hi`` in the guard into the axis' domain."""
    unit = identity(reduction.op, reduction.dtype)
    if unit is None:
        return None
    guard, body = split_guard(reduction.body, unit)
    for term in parts(guard):
        if not (isinstance(term, CallTerm) and term.op == "ge0"):
            continue
        poly = as_int(term.args[0])
        bounded = [a for a in reduction.axes if a in free(poly)]
        if len(bounded) != 1 or len(free(poly) - {bounded[0]} - _sizes(poly)):
            continue
        var = bounded[0]
        coef = dict(poly.terms).get((var,))
        offset = poly - as_int(var) * (coef or 0)
        if coef not in (1, -1) or var in free(offset) or var.extent is None:
            continue
        others = conj(*(o for o in parts(guard) if o is not term))
        extent = offset + 1 if coef == -1 else var.extent + offset
        if not nonneg(extent - 1) or not nonneg(var.extent - extent):
            continue
        new = fresh(extent, "r")
        value = as_int(new) if coef == -1 else as_int(new) - offset
        full = substitute(ite(others, body, unit), {var: value})
        return reduce(
            reduction.op,
            tuple(new if x is var else x for x in reduction.axes),
            full,
            reduction.init,
            reduction.dtype,
        )
    return None


def _sizes(poly: Int) -> frozenset[Var]:
    return frozenset(v for v in free(poly) if v.kind == "size")
