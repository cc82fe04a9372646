"""Running moments as sums over all iterations.

    for k: m = m + (f(k) - m) / (k + 1)                    m = Σ_k f(k) / n
    for k: q = q + (f(k) - m) * (f(k) - m'), m = m'        q = Σ_k f(k)² - (Σ_k f(k))² / n

    for k < T: s = s + f(k + w) - f(k)                     s = s₀ + Σ_{j<w} f(T + j) - Σ_{j<w} f(j)

The first two start at 0. By induction: if m is S / k before iteration k, where S is the sum so far,
then ``m' = (S + f) / (k + 1)``, and ``(f - m) * (f - m') = f² - (S + f)² / (k + 1) + S² / k``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..terms.order import nonneg, positive
from ..terms.reduction_terms import reduce
from ..terms.term import FOREVER, CallTerm, Const, Fold, Int, Term, as_int, const, integer, raw_call
from ..terms.traversal import free, substitute, subterms
from .polynomial import Monomial, Poly, inverse, ordered, plus, times, to_term

PolyOf = Callable[[Term], Poly]


def running_moment(loop: Fold, poly_in_form: PolyOf) -> Poly | None:
    """Return a running mean, or a running sum of squares about it, over sums; None for others."""
    extent = loop.axis.extent
    if extent is None or extent is FOREVER or not positive(extent) or not 0 < len(loop.states) < 3:
        return None
    if any(not isinstance(x, Const) or x.value != 0 for x in loop.inits):
        return None
    mean = len(loop.states) - 1
    new = poly_in_form(loop.updates[mean])
    value = _averaged(loop, loop.states[mean], new)
    if value is None:
        return None
    dtype = loop.states[0].dtype
    count = inverse({(raw_call("cast", (extent,), dtype),): 1.0}, dtype)
    if extent.const is not None:
        count = {(): 1.0 / extent.const}
    total = _sum(loop, value, dtype)
    if len(loop.states) == 1:
        return times(total, count, dtype)
    step = plus(poly_in_form(loop.updates[0]), {(loop.states[0],): 1.0}, -1.0)
    state: Poly = {(loop.states[1],): 1.0}
    around = times(plus(value, state, -1.0), plus(value, new, -1.0), dtype)
    if not _equal(_nonzero(step), _nonzero(around)):
        return None
    squares = _sum(loop, times(value, value, dtype), dtype)
    return plus(squares, times(times(total, total, dtype), count, dtype), -1.0)


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
    added = plus(update, {(state,): 1.0}, -1.0)
    if count is None or len(added := _nonzero(added)) != 2 or set(added.values()) != {1.0, -1.0}:
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


#: The most elements of a running window.
_WIDEST = 32


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


def _averaged(loop: Fold, state: CallTerm, new: Poly) -> Poly | None:
    """The f of ``m + (f - m) / (k + 1)``, if it reads no state."""
    share = next((x for m in new if state in m for x in m if _is_share(x, loop)), None)
    if share is None:
        return None
    weighted = plus(plus(new, {(state,): 1.0}, -1.0), {ordered((state, share)): 1.0})
    value: Poly = {}
    for mono, coef in _nonzero(weighted).items():
        atoms = list(mono)
        if share not in atoms:
            return None
        atoms.remove(share)
        if any(s in loop.states for atom in atoms for s in subterms(atom)):
            return None
        value = plus(value, {ordered(atoms): coef})
    return value


def _is_share(term: Term, loop: Fold) -> bool:
    """Whether a term is ``1 / (k + 1)`` for the loop's k."""
    count = term.args[0] if isinstance(term, CallTerm) and term.op == "recip" else None
    if not (isinstance(count, CallTerm) and count.op == "cast"):
        return False
    index = count.args[0]
    return isinstance(index, Int) and index is as_int(loop.axis) + 1


def _sum(loop: Fold, value: Poly, dtype: str) -> Poly:
    zero = const(0.0, dtype)
    return {(reduce("add", (loop.axis,), to_term(value, dtype), zero, dtype),): 1.0}


def _nonzero(poly: Poly) -> Poly:
    """Without monomials of coefficient zero: ``1 / (k + 1)`` is finite."""
    return {m: c for m, c in poly.items() if c}


def _equal(a: Poly, b: Poly) -> bool:
    return a.keys() == b.keys() and all(math.isclose(a[m], b[m], rel_tol=1e-7) for m in a)
