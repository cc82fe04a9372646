"""Loops that carry values in real arithmetic: sums that are rescaled, and values that stay.

A sum of powers relative to the largest exponent so far, as softmax in one pass has it:

    for r: m, s = m', s * exp(m - m') + f(r) * exp(q(r) - m')        with m' = max(m, x(r))

is ``Σ_r f(r) * exp(q(r) - m)`` with the last m, as ``s * exp(m)`` grows by ``f(r) * exp(q(r))``.
A block of terms at once is a sum in place of f. Each ``m - m'`` must be defined: from ``m = -inf``,
the first x is not -inf, as a mask has it.

A value whose update is the number that it starts with is that number, such as Kahan's compensation,
which is zero but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..terms.condition_terms import ite
from ..terms.reduction_terms import reduce, split_guard
from ..terms.term import (
    FOREVER,
    CallTerm,
    Const,
    Fold,
    Reduce,
    Term,
    as_int,
    const,
    fold,
    fresh,
    raw_call,
)
from ..terms.traversal import replace, substitute, subterms
from .sums.polynomial import Monomial, Poly, operands, ordered, plus, poly_of, to_term

PolyOf = Callable[[Term], Poly]


def without_constants(loop: Fold, poly_in_form: PolyOf) -> Fold | None:
    """Return the loop without a state that keeps its first value, a literal; or None."""
    for k, (state, init) in enumerate(zip(loop.states, loop.inits, strict=True)):
        if not k or not isinstance(init, Const):
            continue
        if poly_in_form(loop.updates[k]) == poly_of(init, state.dtype):
            rows = [
                (s, i, replace(u, {state: init}))
                for s, i, u in zip(loop.states, loop.inits, loop.updates, strict=True)
                if s is not state
            ]
            states, inits, updates = zip(*rows, strict=True)
            new = fold(loop.axis, states, inits, updates)
            return new if isinstance(new, Fold) else None
    return None


def rescaled_sum(loop: Fold, poly_in_form: PolyOf) -> Term | None:
    """Return the sum over all iterations, relative to the last value of a state; or None."""
    total, init = loop.states[0], loop.inits[0]
    if loop.axis.extent in (None, FOREVER) or not isinstance(init, Const) or init.value != 0:
        return None
    update = poly_in_form(loop.updates[0])
    for k in range(1, len(loop.states)):
        scale, new = loop.states[k], poly_in_form(loop.updates[k])
        if _mentions(new, set(loop.states) - {scale}) or not _is_defined(scale, loop.inits[k], new):
            continue
        factor = _exp(plus({(scale,): 1.0}, new, -1.0), total.dtype)
        carried = {m: c for m, c in update.items() if _mentions({m: c}, {total})}
        if carried != {ordered((total, factor)): 1.0}:
            continue
        last = _last(loop, k)
        added = {m: c for m, c in update.items() if m not in carried}
        terms = [_relative(m, new, last, set(loop.states), poly_in_form) for m in added]
        if terms and all(t is not None for t in terms):
            body: Poly = {}
            for mono, coef in zip(terms, added.values(), strict=True):
                body = plus(body, {mono: coef})  # type: ignore[dict-item]
            zero = const(0.0, total.dtype)
            return reduce("add", (loop.axis,), to_term(body, total.dtype), zero, total.dtype)
    return None


def _is_defined(state: CallTerm, init: Term, new: Poly) -> bool:
    """Whether no difference of successive values is infinite or that of two infinities."""
    start = init.value if isinstance(init, Const) else 0.0
    finite = isinstance(start, (int, float)) and math.isfinite(start)
    if finite and all(_is_finite(atom) for mono in new for atom in mono):
        return True
    others = set(operands("max", to_term(new, state.dtype)))
    if state not in others:
        return False
    others.remove(state)
    return all(map(_is_not_above, others)) if finite else (
        start == -math.inf and all(map(_is_finite, others)))  # fmt: skip


def _is_finite(term: Term) -> bool:
    """Whether a term has no infinite literal."""
    literals = (x.value for x in subterms(term) if isinstance(x, Const))
    return all(math.isfinite(x) for x in literals if isinstance(x, (int, float)))


def _is_not_above(term: Term) -> bool:
    """Whether a term is finite or a selection between finite ones and -inf."""
    if isinstance(term, CallTerm) and term.op == "ite":
        return _is_finite(term.args[0]) and all(map(_is_not_above, term.args[1:]))
    return _is_finite(term) or (isinstance(term, Const) and term.value == -math.inf)


def _last(loop: Fold, k: int) -> Term:
    """A state after the loop, which no other state changes."""
    assert loop.axis.extent is not None
    axis = fresh(loop.axis.extent)
    update = substitute(loop.updates[k], {loop.axis: as_int(axis)})
    return fold(axis, (loop.states[k],), (loop.inits[k],), (update,))


def _relative(
    mono: Monomial, new: Poly, last: Term, states: set[CallTerm], poly_in_form: PolyOf
) -> Monomial | None:
    """``f * exp(q - m')`` as ``f * exp(q - m)`` with the last m; None if f or q have a state."""
    for total in (x for x in mono if isinstance(x, Reduce) and _mentions({(x,): 1.0}, states)):
        inner = _relative_sum(total, new, last, states, poly_in_form)
        others = [x for x in mono if x is not total]
        if inner is None or _mentions({ordered(others): 1.0}, states):
            return None
        return ordered((*others, inner))
    powers = [x for x in mono if isinstance(x, CallTerm) and x.op == "exp"]
    for power in powers:
        exponent = plus(poly_in_form(power.args[0]), new)
        others = [x for x in mono if x is not power]
        if _mentions(exponent, states) or any(_mentions({(x,): 1.0}, states) for x in others):
            continue
        exponent = plus(exponent, poly_in_form(last), -1.0)
        return ordered((*others, _exp(exponent, power.dtype)))
    return None


def _relative_sum(
    total: Reduce, new: Poly, last: Term, states: set[CallTerm], poly_in_form: PolyOf
) -> Term | None:
    """A sum of terms, each relative to the last value of a state."""
    zero = const(0.0, total.dtype)
    if total.op != "add" or total.init is not zero:
        return None
    guard, body = split_guard(total.body, zero)
    terms: Poly = {}
    for mono, coef in poly_of(body, total.dtype).items():
        relative = _relative(mono, new, last, states, poly_in_form)
        if relative is None:
            return None
        terms = plus(terms, {relative: coef})
    return reduce(
        "add", total.axes, ite(guard, to_term(terms, total.dtype), zero), zero, total.dtype
    )


def _exp(exponent: Poly, dtype: str) -> Term:
    return raw_call("exp", (to_term(exponent, dtype),), dtype)


def _mentions(poly: Poly, states: set[CallTerm]) -> bool:
    return any(s in states for mono in poly for atom in mono for s in subterms(atom))
