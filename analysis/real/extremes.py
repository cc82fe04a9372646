"""Minima, maxima and selections in real arithmetic.

x if 0 < x else k*x = max(x, k*x) for k < 1          min(max(x, lo), hi) = max(min(x, hi), lo)
hi if hi < x else max(x, lo) = min(max(x, lo), hi) for lo <= hi
max(lowest, max_k x[k]) = max_k x[k]                  max(x[0], max_k x[k]) = max_k x[k]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..lifting.loops.reduction import canonical
from ..terms.condition_terms import ite
from ..terms.evaluate import numpy_dtype
from ..terms.integer import floordiv
from ..terms.reduction_terms import identity, reduce, split_guard
from ..terms.term import TRUE, ZERO, CallTerm, Const, Reduce, Term, const, integer
from ..terms.traversal import substitute
from .sums.polynomial import (
    REAL,
    Monomial,
    Poly,
    combine_all,
    operands,
    ordered,
    plus,
    poly_of,
    product_of,
    times,
    to_term,
)
from .sums.reroll import forward, prolong, reroll_operands

_TESTS = {"lt": 1, "le": 1, "gt": -1, "ge": -1}


def extreme_of(op: str, args: list[Term], dtype: str) -> Term:
    """Return ``min`` or ``max`` of operands in this form: flat, sorted, with one literal."""
    flat = dict.fromkeys(x for a in args for x in operands(op, a))
    if any(not isinstance(x, Const) and not _is_choice(x) for x in flat):
        flat = dict.fromkeys(y for x in flat if (y := _unwon(op, x, dtype)) is not None)
    literals = [float(x.value) for x in flat if isinstance(x, Const)]
    others = reroll_operands(op, [x for x in flat if not isinstance(x, Const)], dtype)
    best = (max if op == "max" else min)(literals) if literals else None
    if best is not None and math.isinf(best) and (best < 0) == (op == "max") and others:
        best = None
    if best is not None and op == "min" and len(others) == 1:
        inner = list(operands("max", others[0]))
        low = next((x for x in inner if isinstance(x, Const)), None)
        if low is not None and float(low.value) <= best:
            remaining = combine_all("max", (x for x in inner if x is not low), dtype)
            return extreme_of(
                "max", [extreme_of("min", [remaining, const(best, dtype)], dtype), low], dtype
            )
    terms = sorted(others, key=lambda term: term.uid)
    return combine_all(op, terms if best is None else [*terms, const(best, dtype)], dtype)


def _is_choice(term: Term) -> bool:
    return isinstance(term, CallTerm) and term.op == "ite"


def _unwon(op: str, term: Term, dtype: str) -> Term | None:
    """An operand whose literals that never win against a number are the identity; None if all."""
    unit = identity(op, dtype)
    if unit is None or _never_wins(op, term):
        return term if unit is None else None
    if isinstance(term, CallTerm) and term.op == "ite" and _never_wins(op, term.args[2]):
        return ite(term.args[0], term.args[1], unit)
    return term


def absorb_init(reduction: Reduce) -> Term:
    """Return a maximum or minimum without an initial value that cannot win."""
    unit = identity(reduction.op, reduction.dtype)
    assert unit is not None
    reduction = prolong(reduction)
    body, init = reduction.body, reduction.init
    if isinstance(body, CallTerm) and body.op == "ite" and body.args[2] is init:
        body = ite(body.args[0], body.args[1], unit)
    guard, _ = split_guard(body, unit)
    first = {a: ZERO for a in reduction.axes}
    last = {a: a.extent - 1 for a in reduction.axes if a.extent is not None}
    among = init in (substitute(body, first), substitute(body, last))
    middle = {a: floordiv(e, integer(2)) for a, e in ((a, a.extent) for a in reduction.axes) if e}
    some = any(substitute(guard, at) is TRUE for at in (first, middle, last))  # an iteration runs
    if (guard is TRUE and among) or (some and _never_wins(reduction.op, init)):
        init = unit
    return canonical(forward(reduce(reduction.op, reduction.axes, body, init, reduction.dtype)))


def of_init(extreme: Term) -> Term:
    """Return ``max(init, max_k x[k])`` for a maximum that begins with another one; also minima."""
    if not (isinstance(extreme, Reduce) and _begins_with(extreme.op, extreme.init)):
        return extreme
    unit = identity(extreme.op, extreme.dtype)
    assert unit is not None
    alone = canonical(reduce(extreme.op, extreme.axes, extreme.body, unit, extreme.dtype))
    return extreme_of(extreme.op, [extreme.init, alone], extreme.dtype)


def _begins_with(op: str, init: Term) -> bool:
    if isinstance(init, CallTerm) and init.op == op:
        return any(_begins_with(op, x) for x in init.args)
    return isinstance(init, Reduce) and init.op == op


def _never_wins(op: str, init: Term) -> bool:
    if not isinstance(init, Const) or not isinstance(init.value, (int, float)):
        return False
    import ml_dtypes

    info = ml_dtypes.finfo if "bfloat" in init.dtype else np.finfo
    least = float(info(numpy_dtype(init.dtype)).max)
    return (-init.value if op == "max" else init.value) >= least


def select_value(condition: Term, test: Term, a: Poly, b: Poly, dtype: str) -> Poly:
    """Return ``a if condition else b``, as a minimum or maximum if the condition compares the two.

    ``test`` is the condition with its operands in this form.
    """
    difference = plus(a, b, -1.0)
    if not difference:
        return a
    if isinstance(test, CallTerm) and test.op in _TESTS and test.args[0].dtype in REAL:
        op = _extreme(test, difference)
        if op is not None:
            return poly_of(extreme_of(op, [to_term(a, dtype), to_term(b, dtype)], dtype), dtype)
    if a and b:
        common = {m: c for m, c in a.items() if b.get(m) == c}
        if common:
            a, b = ({m: c for m, c in p.items() if m not in common} for p in (a, b))
            return plus(common, select_value(condition, condition, a, b, dtype))
    if len(a) == len(b) == 1:
        factors, rests = _common_factors(a, b)
        if factors:
            return times({factors: 1.0}, select_value(condition, condition, *rests, dtype), dtype)
    if not b and len(a) == 1:
        ((mono, coef),) = a.items()
        product, zero = combine_all("mul", mono, dtype), const(0.0, dtype)
        return product_of({(ite(condition, product, zero),): coef})
    return {(ite(condition, to_term(a, dtype), to_term(b, dtype)),): 1.0}


def _common_factors(a: Poly, b: Poly) -> tuple[Monomial, tuple[Poly, Poly]]:
    """The factors that two monomials share, and what remains of each."""
    ((first, j),), ((second, k),) = a.items(), b.items()
    ours, theirs, factors = list(first), list(second), list[Term]()
    for atom in first:
        if atom in theirs:
            ours.remove(atom)
            theirs.remove(atom)
            factors.append(atom)
    return ordered(factors), ({ordered(ours): j}, {ordered(theirs): k})


def _extreme(test: CallTerm, difference: Poly) -> str | None:
    """``max`` or ``min``, if the comparison is between the alternatives, or multiples of them."""
    sign = _TESTS[test.op]
    left, right = (poly_of(x, x.dtype) for x in test.args)
    gap = {m: c * sign for m, c in plus(right, left, -1.0).items()}
    ratios = [_ratio(x, gap) for x in (difference, *_unclamped(difference))] if gap else []
    ratio = next((k for k in ratios if k is not None), None)
    return None if ratio is None else "max" if ratio > 0 else "min"


def _unclamped(poly: Poly) -> Iterator[Poly]:
    """``c * max(x, l) + k`` as ``c * x + k``, if both have the same sign, or are both 0.

    That holds if the root ``-k / c`` is not below ``l``; for a minimum, not above it.
    """
    clamps = [
        terms[0]
        for terms in poly
        if len(terms) == 1 and isinstance(terms[0], CallTerm) and terms[0].op in EXTREMES
    ]
    if len(clamps) != 1 or not poly.keys() <= {(), (clamps[0],)}:
        return
    (clamp,) = clamps
    assert isinstance(clamp, CallTerm)
    args = list(operands(clamp.op, clamp))
    ends = [float(x.value) for x in args if isinstance(x, Const)]
    c, k = poly[(clamp,)], poly.get((), 0.0)
    if len(ends) != 1 or not c or (ends[0] + k / c) * EXTREMES[clamp.op] > 0:
        return
    others = combine_all(clamp.op, (x for x in args if not isinstance(x, Const)), clamp.dtype)
    yield plus({(): k} if k else {}, poly_of(others, clamp.dtype), c)


EXTREMES = {"max": 1, "min": -1}


def _ratio(a: Poly, b: Poly) -> float | None:
    """The k with ``a = k * b``, or None."""
    if a.keys() != b.keys() or not all(b.values()):
        return None
    ratios = [a[m] / b[m] for m in a]
    return ratios[0] if all(math.isclose(r, ratios[0], rel_tol=1e-7) for r in ratios) else None
