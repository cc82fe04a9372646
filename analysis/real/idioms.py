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
from .polynomial import REAL, combine_all, operands


def idiomatic(lifted: TensorExpression) -> TensorExpression:
    """Return an expression that is equal up to rounding, in the operators' own idioms."""
    outputs = tuple(replace(c, body=_idioms(real(c.body))) for c in lifted.outputs)
    return replace(lifted, outputs=outputs)


def _idioms(t: Term) -> Term:
    memo: dict[Term, Term] = {}

    def go(s: Term) -> Term:
        result = memo.get(s)
        if result is None:
            if isinstance(s, CallTerm) and s.dtype in REAL and s.op in _RULES:
                result = _RULES[s.op](s, go)
            else:
                result = rebuild(s, go)
            memo[s] = result
        return result

    return go(t)


Go = Callable[[Term], Term]


def _sum(s: Term, go: Go) -> Term:
    plain: list[Term] = []
    negative: list[Term] = []
    for x in operands("add", s):
        c, factors = _literal(x)
        (negative if c == -1.0 else plain).append(
            go(combine_all("mul", factors, s.dtype) if c == -1.0 else x)
        )
    if not plain:
        plain = [const(0.0, s.dtype)]
    out = combine_all("add", plain, s.dtype)
    for x in negative:
        out = raw_call("sub", (out, x), s.dtype)
    return out


def _product(s: Term, go: Go) -> Term:
    c, factors = _literal(s)
    recips = [x for x in factors if isinstance(x, CallTerm) and x.op == "recip"]
    above = [go(x) for x in factors if x not in recips]
    count = 1 / c if c else 0.0
    sums = any(isinstance(x, Reduce) for x in factors)
    if sums and count > 1 and abs(count - round(count)) < 1e-3 * count:
        out = combine_all("mul", above, s.dtype)
        out = raw_call("div", (out, const(float(round(count)), s.dtype)), s.dtype)
    else:
        out = combine_all("mul", above if c == 1.0 else [const(c, s.dtype), *above], s.dtype)
    for x in recips:
        out = raw_call("div", (out, go(x.args[0])), s.dtype)
    return out


def _recip(s: CallTerm, go: Go) -> Term:
    return raw_call("div", (const(1.0, s.dtype), go(s.args[0])), s.dtype)


def _literal(x: Term) -> tuple[float, list[Term]]:
    """The literal factor of a product, and the other factors."""
    factors = list(operands("mul", x))
    if isinstance(factors[0], Const) and len(factors) > 1:
        return float(factors[0].value), factors[1:]
    return 1.0, factors


_RULES: dict[str, Callable[[CallTerm, Go], Term]] = {"add": _sum, "mul": _product, "recip": _recip}
