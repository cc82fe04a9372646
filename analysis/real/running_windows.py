"""Running totals of a window: one element enters, and one leaves.

    for k < T: s = s + f(k + w) - f(k)                     s = s₀ + Σ_{j<w} f(T + j) - Σ_{j<w} f(j)

The width w is a literal.
"""

from __future__ import annotations

from ..terms.order import nonneg
from ..terms.term import CallTerm, Fold, Int, Term, as_int, integer
from ..terms.traversal import free, substitute, subterms
from .running import PolyOf, nonzero
from .sums.polynomial import Monomial, Poly, ordered, plus

#: The most elements of a running window.
_WIDEST = 32


def telescoped(loop: Fold, update: Poly, poly_in_form: PolyOf) -> Poly | None:
    """Return a running total from which the element of w iterations before is subtracted; or None.

    Args:
        loop: A fold of one state.
        update: The state after an iteration that runs, in the form.
        poly_in_form: Returns the form of a term.
    """
    state, choice = loop.states[0], loop.updates[0]
    if not (isinstance(choice, CallTerm) and choice.op == "ite" and choice.args[2] is state):
        return None
    count = _iterations(choice.args[0], loop)
    added = nonzero(plus(update, {(state,): 1.0}, -1.0))
    if count is None or len(added) != 2 or set(added.values()) != {1.0, -1.0}:
        return None
    if any(x is state for mono in added for atom in mono for x in subterms(atom)):
        return None
    enters, leaves = sorted(added, key=lambda m: -added[m])
    for width in range(1, _WIDEST + 1):
        if _at(leaves, loop, as_int(loop.axis) + width) == enters:
            out = poly_in_form(loop.inits[0])
            for j in range(width):
                out = plus(out, {_at(leaves, loop, count + j): 1.0})
                out = plus(out, {_at(leaves, loop, integer(j)): 1.0}, -1.0)
            return out
    return None


def _iterations(condition: Term, loop: Fold) -> Int | None:
    """How many of the first iterations run."""
    if not (isinstance(condition, CallTerm) and condition.op == "ge0"):
        return None
    count = as_int(condition.args[0]) + as_int(loop.axis) + 1
    if loop.axis in free(count) or loop.axis.extent is None:
        return None
    return count if nonneg(count) and nonneg(loop.axis.extent - count) else None


def _at(mono: Monomial, loop: Fold, place: Int) -> Monomial:
    return ordered(substitute(x, {loop.axis: place}) for x in mono)
