"""Counting loops in closed form: sums of a constant integer under a guard.

    Σ_{r < R} (k if lo <= r <= hi else 0)  =  k * max(0, min(R - 1, hi) - max(0, lo) + 1)

The guard is a conjunction of conditions ``c * r + e >= 0``, each over at most one axis. Axes are
counted separately, and their counts multiplied.
"""

from __future__ import annotations

import math

from ....terms.condition_terms import conj, ite, parts
from ....terms.integer import floordiv
from ....terms.reduction_terms import reduce, split_guard, zero_of
from ....terms.scalar import call, extreme
from ....terms.term import ONE, TRUE, ZERO, CallTerm, Int, Reduce, Term, Var, as_int, integer, mul
from ....terms.term.literals import WHOLE, is_const
from ....terms.traversal import free

#: The lower and upper bounds of a counted axis.
Ends = tuple[list[Int], list[Int]]


def closed_form(reduction: Reduce) -> Term | None:
    """Return a sum of one integer in closed form, or None; also one in a floating-point type."""
    if reduction.op == "add" and reduction.dtype in WHOLE:
        return _count(reduction)
    if reduction.op != "add" or not isinstance(reduction.body, Int):
        return None
    guard, body = split_guard(reduction.body, ZERO)
    axes = frozenset(reduction.axes)
    value = as_int(body)
    if not axes.isdisjoint(free(value)):
        return None
    ends: dict[Var, Ends] = {}
    for var in reduction.axes:
        if var.extent is None or not axes.isdisjoint(free(var.extent)):
            return None
        ends[var] = [ZERO], [var.extent - 1]
    outside = []
    for term in parts(guard):
        used = [a for a in reduction.axes if a in free(term)]
        if not used:
            outside.append(term)
        elif len(used) > 1 or not _bounded(term, used[0], ends[used[0]]):
            return None
    number = ONE
    for low, high in ends.values():
        number = mul(number, _extreme("max", [ZERO, _span(low, high)]))
    return as_int(reduction.init) + as_int(ite(conj(*outside), mul(value, number), ZERO))


def _count(reduction: Reduce) -> Term | None:
    """A count in a floating-point type, which has all numbers up to it: no sum is rounded."""
    guard, one = split_guard(reduction.body, zero_of(reduction.body))
    extents = [a.extent.const for a in reduction.axes if a.extent is not None]
    if guard is TRUE or not is_const(one, 1) or not is_const(reduction.init, 0) or None in extents:
        return None
    if math.prod(e for e in extents if e is not None) > WHOLE[reduction.dtype]:
        return None
    ones = reduce("add", reduction.axes, ite(guard, ONE, ZERO), ZERO, "int")
    inner = as_int(ones).atom
    number = closed_form(inner) if isinstance(inner, Reduce) else None
    return None if number is None else call("cast", (number,), reduction.dtype)


def _bounded(term: Term, var: Var, ends: Ends) -> bool:
    """Add the bound that ``k * var + bound >= 0`` implies; return False for other conditions."""
    if not (isinstance(term, CallTerm) and term.op == "ge0"):
        return False
    poly = as_int(term.args[0])
    k = dict(poly.terms).get((var,), 0)
    bound = poly - as_int(var) * k
    if not k or var in free(bound):
        return False
    if k > 0:  # var >= ceil(-bound / k)
        ends[0].append(-floordiv(bound, integer(k)))
    else:
        ends[1].append(floordiv(bound, integer(-k)))
    return True


def _span(low: list[Int], high: list[Int]) -> Int:
    return _extreme("min", high) - _extreme("max", low) + 1


def _extreme(op: str, args: list[Int]) -> Int:
    out = args[0]
    for poly in args[1:]:
        out = as_int(extreme(op, out, poly))
    return out
