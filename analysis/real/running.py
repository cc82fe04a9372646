"""Running moments as sums over all iterations.

    for k: m = m + (f(k) - m) / (k + 1)                    m = Σ_k f(k) / n
    for k: q = q + (f(k) - m) * (f(k) - m'), m = m'        q = Σ_k f(k)² - (Σ_k f(k))² / n

Both start at 0. By induction: if m is S / k before iteration k, where S is the sum so far,
then ``m' = (S + f) / (k + 1)``, and ``(f - m) * (f - m') = f² - (S + f)² / (k + 1) + S² / k``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..terms.order import positive
from ..terms.reduction_terms import reduce
from ..terms.term import FOREVER, CallTerm, Const, Fold, Int, Term, as_int, const, raw_call
from ..terms.traversal import subterms
from .sums.polynomial import Poly, inverse, ordered, plus, times, to_term

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
    if not _equal(nonzero(step), nonzero(around)):
        return None
    squares = _sum(loop, times(value, value, dtype), dtype)
    return plus(squares, times(times(total, total, dtype), count, dtype), -1.0)


def _averaged(loop: Fold, state: CallTerm, new: Poly) -> Poly | None:
    """The f of ``m + (f - m) / (k + 1)``, if it reads no state."""
    share = next((x for m in new if state in m for x in m if _is_share(x, loop)), None)
    if share is None:
        return None
    weighted = plus(plus(new, {(state,): 1.0}, -1.0), {ordered((state, share)): 1.0})
    value: Poly = {}
    for mono, coef in nonzero(weighted).items():
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


def nonzero(poly: Poly) -> Poly:
    """Return a polynomial without monomials of coefficient zero: ``1 / (k + 1)`` is finite."""
    return {m: c for m, c in poly.items() if c}


def _equal(a: Poly, b: Poly) -> bool:
    return a.keys() == b.keys() and all(math.isclose(a[m], b[m], rel_tol=1e-7) for m in a)
