"""Minima, maxima and selections in real arithmetic.

x if 0 < x else k*x = max(x, k*x) for k < 1          min(max(x, lo), hi) = max(min(x, hi), lo)
max(lowest, max_k x[k]) = max_k x[k]                  max(x[0], max_k x[k]) = max_k x[k]
"""

from __future__ import annotations

import math

import numpy as np

from ..evaluate import numpy_dtype
from ..reduction import canonical
from ..rewrite import substitute
from ..scalar import identity, ite, reduce, split_guard
from ..term import TRUE, ZERO, Call, Const, Reduce, Term, const, raw_call
from .polynomial import Poly, combined, key_of, operands, plus, product_of, written
from .reroll import forward, prolonged, rolled

_TESTS = {"lt": ("lt", 1), "le": ("le", 1), "gt": ("lt", -1), "ge": ("le", -1)}


def extreme_of(op: str, args: list[Term], dtype: str) -> Term:
    """``min`` or ``max`` of operands in this form: flat, sorted, literals as one."""
    flat = dict.fromkeys(x for a in args for x in operands(op, a))
    literals = [float(x.value) for x in flat if isinstance(x, Const)]
    others = rolled(op, [x for x in flat if not isinstance(x, Const)], dtype)
    best = (max if op == "max" else min)(literals) if literals else None
    if best is not None and math.isinf(best) and (best < 0) == (op == "max") and others:
        best = None
    if best is not None and op == "min" and len(others) == 1:
        inner = list(operands("max", others[0]))
        low = next((x for x in inner if isinstance(x, Const)), None)
        if low is not None and float(low.value) <= best:
            rest = combined("max", (x for x in inner if x is not low), dtype)
            return extreme_of(
                "max", [extreme_of("min", [rest, const(best, dtype)], dtype), low], dtype
            )
    terms = sorted(others, key=lambda t: t.uid)
    return combined(op, terms if best is None else [*terms, const(best, dtype)], dtype)


def absorbed(r: Reduce) -> Term:
    """A maximum or minimum without a start that cannot win."""
    unit = identity(r.op, r.dtype)
    assert unit is not None
    r = prolonged(r)
    body, init = r.body, r.init
    if isinstance(body, Call) and body.op == "ite" and body.args[2] is init:
        body = ite(body.args[0], body.args[1], unit)
    guard, _ = split_guard(body, unit)
    first = {a: ZERO for a in r.axes}
    last = {a: a.extent - 1 for a in r.axes if a.extent is not None}
    among = init in (substitute(body, first), substitute(body, last))
    if guard is TRUE and (among or _never_wins(r.op, init)):
        init = unit
    return canonical(forward(reduce(r.op, r.axes, body, init, r.dtype)))


def _never_wins(op: str, init: Term) -> bool:
    if not isinstance(init, Const) or not isinstance(init.value, (int, float)):
        return False
    import ml_dtypes

    info = ml_dtypes.finfo if "bfloat" in init.dtype else np.finfo
    least = float(info(numpy_dtype(init.dtype)).max)
    return (-init.value if op == "max" else init.value) >= least


def chosen(condition: Term, a: Poly, b: Poly, dtype: str) -> Poly:
    """``a if condition else b``: a minimum or maximum where the comparison is between the two."""
    difference = plus(a, b, -1.0)
    if not difference:
        return a
    if (
        isinstance(condition, Call)
        and condition.op in _TESTS
        and "float" in condition.args[0].dtype
    ):
        return _compared(condition, a, b, difference, dtype)
    if not b and len(a) == 1:
        ((mono, c),) = a.items()
        one, zero = combined("mul", mono, dtype), const(0.0, dtype)
        return product_of({(ite(condition, one, zero),): c})
    return {(ite(condition, written(a, dtype), written(b, dtype)),): 1.0}


def _compared(condition: Call, a: Poly, b: Poly, difference: Poly, dtype: str) -> Poly:
    from .polynomial import of

    test, sign = _TESTS[condition.op]
    left, right = (of(x, x.dtype) for x in condition.args)
    d = plus(right, left, -1.0)
    d = {m: c * sign for m, c in d.items()}
    if not d:
        return b if test == "lt" else a
    k = _ratio(difference, d)
    if k is not None:
        op = "max" if k > 0 else "min"
        return of(extreme_of(op, [written(a, dtype), written(b, dtype)], dtype), dtype)
    lead = d[min(d, key=key_of)]
    if lead < 0:
        test, a, b = ("le" if test == "lt" else "lt"), b, a
    kind = condition.args[0].dtype
    goal = written({m: c / lead for m, c in d.items()}, kind)
    told = raw_call(test, (const(0.0, kind), goal), "bool")
    return {(ite(told, written(a, dtype), written(b, dtype)),): 1.0}


def _ratio(a: Poly, b: Poly) -> float | None:
    """k with ``a = k * b``."""
    if a.keys() != b.keys():
        return None
    ratios = [a[m] / b[m] for m in a]
    return ratios[0] if all(math.isclose(r, ratios[0], rel_tol=1e-7) for r in ratios) else None
