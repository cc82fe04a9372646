"""The form in real arithmetic, written as operators usually write it.

    0.125 * Σ = Σ / 8        a + -1 * b = a - b        a * recip(b) = a / b

Only recognisers see it: their proposals are compared in the form itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..lifting.effects.tensor_expression import TensorExpression
from ..terms.term import CallTerm, Const, Reduce, Term, const, raw_call
from ..terms.traversal import rebuild
from .form import real
from .sums.polynomial import REAL, combine_all, operands


def idiomatic(lifted: TensorExpression) -> TensorExpression:
    """Return an expression that is equal up to rounding, written as operators write it."""
    outputs = tuple(replace(c, body=_idioms(real(c.body))) for c in lifted.outputs)
    return replace(lifted, outputs=outputs)


def _idioms(term: Term) -> Term:
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            if isinstance(term, CallTerm) and term.dtype in REAL and term.op in _RULES:
                result = _RULES[term.op](term, go)
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


Go = Callable[[Term], Term]


def _sum(term: Term, go: Go) -> Term:
    plain: list[Term] = []
    negative: list[Term] = []
    for operand in operands("add", term):
        coef, factors = _literal(operand)
        (negative if coef == -1.0 else plain).append(
            go(combine_all("mul", factors, term.dtype) if coef == -1.0 else operand)
        )
    if not plain:
        plain = [const(0.0, term.dtype)]
    out = combine_all("add", plain, term.dtype)
    for operand in negative:
        out = raw_call("sub", (out, operand), term.dtype)
    return out


def _product(term: Term, go: Go) -> Term:
    coef, factors = _literal(term)
    recips = [x for x in factors if isinstance(x, CallTerm) and x.op == "recip"]
    above = [go(x) for x in factors if x not in recips]
    count = 1 / coef if coef else 0.0
    sums = any(isinstance(x, Reduce) for x in factors)
    # a mean: the coefficient is the reciprocal of a count, rounded to the type
    if sums and count > 1 and abs(count - round(count)) < 1e-3 * count:
        out = combine_all("mul", above, term.dtype)
        out = raw_call("div", (out, const(float(round(count)), term.dtype)), term.dtype)
    else:
        out = combine_all(
            "mul", above if coef == 1.0 else [const(coef, term.dtype), *above], term.dtype
        )
    for call in recips:
        out = raw_call("div", (out, go(call.args[0])), term.dtype)
    return out


def _recip(call: CallTerm, go: Go) -> Term:
    return raw_call("div", (const(1.0, call.dtype), go(call.args[0])), call.dtype)


def _literal(term: Term) -> tuple[float, list[Term]]:
    """The literal factor of a product, and the other factors."""
    factors = list(operands("mul", term))
    if isinstance(factors[0], Const) and len(factors) > 1:
        return float(factors[0].value), factors[1:]
    return 1.0, factors


_RULES: dict[str, Callable[[CallTerm, Go], Term]] = {"add": _sum, "mul": _product, "recip": _recip}
