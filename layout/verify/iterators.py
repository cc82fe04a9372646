"""The iterators of a block: bounds, loop order, coordinates of accesses."""

from __future__ import annotations

from itertools import pairwise

from ...analysis.blocks.blocks import BlockAccess, Stage
from ...analysis.terms.integer import floordiv
from ...analysis.terms.order import nonneg
from ...analysis.terms.quotient import is_div
from ...analysis.terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Int,
    Var,
    as_int,
    integer,
    variable,
)
from ...analysis.terms.traversal import ints


def is_inside(poly: Int, extent: Int) -> bool:
    """Whether ``0 <= poly < extent``, directly or over the digits of its variables."""
    return any(nonneg(q) and nonneg(extent - 1 - q) for q in (poly, _over_digits(poly)))


def _over_digits(poly: Int) -> Int:
    """The term with each variable that it divides written as digits, which may show its bounds.

    4*v - 7*(v // 2)  is  q + 4*r  with v = 2*q + r
    """
    cuts: dict[Var, set[int]] = {}
    for atom in (a for m, _ in poly.terms for a in m):
        if isinstance(atom, CallTerm) and is_div(atom):
            var, k = as_int(atom.args[0]).atom, as_int(atom.args[1]).const
            if isinstance(var, Var) and var.extent is not None and k is not None and k > 1:
                cuts.setdefault(var, set()).add(k)
    return ints(poly, {v: _number(v, v.extent, sorted(c)) for v, c in cuts.items() if v.extent})


def _number(var: Var, extent: Int, cuts: list[int]) -> Int:
    """``Σ place * digit``, which takes every value of the variable.

    Returns the variable itself if the cuts do not nest.
    """
    if any(b % a for a, b in pairwise(cuts)):
        return as_int(var)
    places = [1, *cuts]
    sizes = [integer(b // a) for a, b in pairwise(places)]
    sizes.append(floordiv(extent + (places[-1] - 1), integer(places[-1])))
    digits = [as_int(variable("loop", f"{var.name}.{k}", e)) for k, e in enumerate(sizes)]
    return sum((d * k for d, k in zip(digits, places, strict=True)), start=ZERO)


def iterators_of(stage: Stage, *, reduced: bool) -> set[Var]:
    """The iterators of one kind that run over more than one value."""
    return {v for v in stage.axes if (v.kind == "reduce") == reduced and v.extent is not ONE}


def coordinates(access: BlockAccess) -> set[Var] | None:
    """The iterators that are the coordinates of an access; None if others occur in them."""
    atoms = [p.atom for p in access.indices if p is not None and p.const is None]
    if len(atoms) < sum(p is None or p.const is None for p in access.indices):
        return None
    iterators = {p for p in atoms if isinstance(p, Var)}
    return iterators if len(iterators) == len(set(atoms)) else None


def iteration_count(iterators: set[Var]) -> Int:
    """The product of the extents of iterators."""
    out: Int = ONE
    for var in iterators:
        assert var.extent is not None
        out = out * var.extent
    return out


def in_loop_order(stage: Stage) -> list[Var]:
    """The iterators in the order of their loops, those without a loop first."""
    looped = list(dict.fromkeys(v for v, _ in stage.order))
    return [v for v in stage.axes if v not in looped] + looped
