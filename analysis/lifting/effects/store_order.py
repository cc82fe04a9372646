"""Whether iterations of a loop store into different elements, or into one in order."""

from __future__ import annotations

from ...proofs.prove import prove
from ...terms.condition_terms import conj, eq0, ge0, parts
from ...terms.order import bounds, nonneg
from ...terms.term import FALSE, TRUE, Int, Term, Var, as_int, fresh
from ...terms.traversal import free, ints, substitute, tensors
from ..tir.unliftable import Unliftable
from .effects import Write, coordinates


def same_or_later(
    write: Write, var: Var, index: tuple[Int, ...], where: str, guard: Term = TRUE
) -> bool:
    """Return whether no earlier iteration of loop ``var`` writes ``index`` by ``write``.

    ``index`` may depend on ``var``; it is the element that iteration ``var`` accesses where the
    guard holds.
    """
    if index == write.index:
        if not any(var in free(e) for e in index):
            return False
        if any(e.atom is var for e in index):
            return True
    every = Write((*write.vars, var), TRUE, write.index, TRUE)
    values = dict(zip(coordinates(len(index)), index, strict=True))
    inverse = every.inverse.get(var)
    if inverse is not None:
        lo, _ = bounds(ints(inverse, values) - as_int(var))
        if lo is not None and nonneg(lo):
            return True
    try:
        if every.at(index, where)[0] is FALSE:
            return True
    except Unliftable:
        return False
    return are_apart(write, var, index, guard, -1)


def are_apart(write: Write, var: Var, index: tuple[Int, ...], guard: Term, side: int) -> bool:
    """Return whether guards keep an element from the stores of other iterations of a loop.

    Args:
        write: The stores of an iteration.
        var: The loop variable.
        index: The element that iteration `var` accesses.
        guard: Where it accesses it.
        side: -1 for the stores of earlier iterations, 1 for those of later ones.
    """
    if guard is TRUE or write.guard is TRUE or tensors(write.guard) | tensors(guard):
        return False
    if var.extent is None or any(map(tensors, (*index, *write.index))):
        return False
    other = fresh(var.extent)
    mapping = {v: as_int(fresh(v.extent)) for v in write.vars if v.extent is not None}
    mapping[var] = as_int(other)
    place = (eq0(ints(e, mapping) - i) for e, i in zip(write.index, index, strict=True))
    order = ge0((as_int(other) - as_int(var)) * side - 1)
    meets = conj(*place, order, substitute(write.guard, mapping), guard)
    return meets is FALSE or prove(FALSE, parts(meets)).proved
