"""A normal form for prefix reductions: ``⊕_{r < n, r <= y} f(r)`` from the identity.

- a peeled first iteration: ``f(-1) ⊕ ⊕_{r < n} f(r)`` becomes ``⊕_{r < n + 1} f(r - 1)``;
- two loops over one range in turn: ``⊕_{r < n} f(r) ⊕ ⊕_{r < m} f(n + r)`` becomes
  ``⊕_{r < n + m} f(r)``;
- a separate first element: ``(a ⊕ ⊕_{r < y} f(r)) if y >= 1 else a`` needs no selection.
"""

from __future__ import annotations

from ...proofs.prove import prove
from ...terms.condition_terms import atom_of, conj, ge0, ite, negate, parts
from ...terms.order import nonneg
from ...terms.reduction_terms import identity, reduce, split_guard
from ...terms.term import (
    FALSE,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    Reduce,
    Term,
    Var,
    as_int,
    fresh,
    integer,
)
from ...terms.traversal import substitute, tensors


def unpeel(reduction: Reduce) -> Term | None:
    """Return a reduction whose initial value would be its element before the first; or None."""
    unit = identity(reduction.op, reduction.dtype)
    if unit is None or not tensors(reduction.init) or len(reduction.axes) != 1:
        return None
    (var,) = reduction.axes
    if substitute(reduction.body, {var: integer(-1)}) is not reduction.init:
        return None
    assert var.extent is not None
    new = fresh(var.extent + 1, "r")
    return reduce(
        reduction.op,
        (new,),
        substitute(reduction.body, {var: as_int(new) - 1}),
        unit,
        reduction.dtype,
    )


def joined(reduction: Reduce) -> Term | None:
    """Return one reduction for two of which the second goes on where the first ends; or None."""
    first = atom_of(reduction.init)
    if not isinstance(first, Reduce) or first.op != reduction.op or len(reduction.axes) != 1:
        return None
    if len(first.axes) != 1:
        return None
    (var,), (earlier,) = reduction.axes, first.axes
    assert var.extent is not None and earlier.extent is not None
    if not (nonneg(var.extent) and nonneg(earlier.extent)):
        return None  # a loop of fewer than no iterations has none
    extent = var.extent + earlier.extent
    new = fresh(extent, "r")
    body = substitute(reduction.body, {var: as_int(new) - earlier.extent})
    if substitute(first.body, {earlier: as_int(new)}) is not body:
        return None
    return reduce(reduction.op, (new,), body, first.init, reduction.dtype)


def drop_choice(call: CallTerm) -> Term | None:
    """Return R for ``R if c else init``, if R reduces from init and is empty where c is false."""
    condition, yes, no = call.args
    for holds, full, empty in ((condition, yes, no), (negate(condition), no, yes)):
        term = full.atom if isinstance(full, Int) else full
        if isinstance(term, Reduce) and term.init is not empty and _is_first(holds, term, empty):
            return full
        if not isinstance(term, Reduce) or term.init is not empty:
            continue
        unit = identity(term.op, term.dtype)
        guard = TRUE if unit is None else split_guard(term.body, unit)[0]
        if guard is TRUE:
            continue
        remaining = [c for c in parts(holds) if not _never(guard, c)]
        if len(remaining) < len(parts(holds)):
            return ite(conj(*remaining), full, empty)
    return None


def _is_first(holds: Term, reduction: Reduce, single: Term) -> bool:
    """Whether the reduction is a single element where the condition ``y >= 1`` does not hold."""
    if not (isinstance(holds, CallTerm) and holds.op == "ge0" and len(reduction.axes) == 1):
        return False
    coordinate = (as_int(holds.args[0]) + 1).atom
    unit = identity(reduction.op, reduction.dtype)
    if not isinstance(coordinate, Var) or unit is None or reduction.init is not unit:
        return False
    (axis,) = reduction.axes
    guard, body = split_guard(reduction.body, unit)
    if guard is not ge0(as_int(coordinate) - as_int(axis)) or axis.extent is not coordinate.extent:
        return False
    first = {axis: ZERO, coordinate: ZERO}
    return substitute(body, first) is substitute(single, {coordinate: ZERO})


def _never(guard: Term, term: Term) -> bool:
    """Whether no iteration runs where ``term`` does not hold."""
    return prove(FALSE, (*parts(guard), negate(term))).proved
