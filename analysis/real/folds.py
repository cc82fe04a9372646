"""Recurrences as reductions in real arithmetic.

    for k: s = max(s, g(k))         s = max over k of g(k), if g does not read s; also min and sums
    for k: s = s + Σ_j g(k, j)      s = Σ_k,j g(k, j)

Running means are in `running`, totals of a window in `running_windows`, and totals relative to a
running maximum in `rescaled`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..terms.reduction_terms import reduce
from ..terms.term import CallTerm, Fold, Reduce, Term
from ..terms.traversal import subterms
from .rescaled import rescaled_sum, without_constants
from .running import PolyOf, running_moment
from .running_windows import telescoped
from .sums.polynomial import Poly, combine_all, operands, to_term

Form = Callable[[Term], Term]


def reduced_fold(loop: Fold, form: Form, poly_in_form: PolyOf) -> Poly | None:
    """Return a fold as a polynomial over reductions; None if it stays a fold.

    Args:
        loop: The fold.
        form: Returns a term in the form of real arithmetic.
        poly_in_form: Returns such a term as a polynomial.
    """
    if len(loop.states) == 1:
        return _of_one_state(loop, form, poly_in_form)
    shorter = without_constants(loop, poly_in_form) or rescaled_sum(loop, poly_in_form)
    if shorter is not None:
        return poly_in_form(shorter)
    return _moment(loop, poly_in_form)


def _moment(loop: Fold, poly_in_form: PolyOf) -> Poly | None:
    moment = running_moment(loop, poly_in_form)
    return None if moment is None else poly_in_form(to_term(moment, loop.dtype))


def _of_one_state(loop: Fold, form: Form, poly_in_form: PolyOf) -> Poly | None:
    moment = _moment(loop, poly_in_form)
    if moment is not None:
        return moment
    choice = loop.updates[0]
    if isinstance(choice, CallTerm) and choice.op == "ite":
        window = telescoped(loop, poly_in_form(choice.args[1]), poly_in_form)
        if window is not None:
            return window
    total = _total(loop, form(choice))
    return None if total is None else poly_in_form(total)


def _total(loop: Fold, update: Term) -> Term | None:
    """The reduction of what each iteration adds to the state, or compares it with."""
    state, start = loop.states[0], loop.inits[0]
    if isinstance(update, Reduce) and update.init is state:
        if all(s is not state for s in subterms(update.body)):
            return reduce(update.op, (loop.axis, *update.axes), update.body, start, loop.dtype)
    if not (isinstance(update, CallTerm) and update.op in ("max", "min", "add")):
        return None
    terms = list(operands(update.op, update))
    others = [x for x in terms if x is not state]
    if len(others) + 1 != len(terms) or any(state in set(subterms(x)) for x in others):
        return None
    body = combine_all(update.op, others, loop.dtype)
    return reduce(update.op, (loop.axis,), body, start, loop.dtype)
