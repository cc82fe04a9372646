"""A fold of which only n iterations in a row do anything, as a fold over these.

    for i in range(m * n): state = update(i) if i // n == k else state

is a loop over ``j < n`` with ``i = n*k + j``. That is what remains of stores ``t[i // n, ..]`` in
row-major order, for each row.
"""

from __future__ import annotations

from ...terms.condition_terms import parts
from ...terms.integer import floordiv
from ...terms.order import ranges_over
from ...terms.quotient import is_div
from ...terms.term import CallTerm, Fold, Int, Term, Var, as_int, bare, mul, variable
from ...terms.traversal import free, substitute
from .fold import idle, make_fold


def windowed(loop: Fold) -> Term | None:
    """Return the fold over the iterations that do anything; None if it is not such a fold."""
    first, axis = bare(loop.updates[0]), loop.axis
    assert axis.extent is not None
    for term in parts(first.args[0]) if isinstance(first, CallTerm) and first.op == "ite" else ():
        if not (isinstance(term, CallTerm) and term.op == "eq0") or axis not in free(term):
            continue
        quotient = _quotient(as_int(term.args[0]), axis)
        if quotient is None or not all(
            idle(term, u, s) for u, s in zip(loop.updates, loop.states, strict=True)
        ):
            continue
        length, place = quotient
        count = floordiv(axis.extent, length)
        if mul(count, length) is not axis.extent or not ranges_over(place, count):
            continue
        runs = variable("loop", f"{axis.name}%", length)
        mapping = {axis: mul(place, length) + as_int(runs)}
        updates = tuple(substitute(u, mapping) for u in loop.updates)
        return make_fold(runs, loop.states, loop.inits, updates)
    return None


def _quotient(poly: Int, axis: Var) -> tuple[Int, Int] | None:
    """(n, k) if the polynomial is ``axis // n - k`` up to its sign."""
    for mono, sign in poly.terms:
        if len(mono) != 1 or sign not in (1, -1) or not is_div(mono[0]):
            continue
        (quotient,) = mono
        place = as_int(quotient) - poly * sign
        assert isinstance(quotient, CallTerm)
        if quotient.args[0] is as_int(axis) and axis not in free(place):
            return as_int(quotient.args[1]), place
    return None
