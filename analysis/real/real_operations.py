"""Operations on floating-point terms as polynomials over atoms in real arithmetic.

sigmoid(x) = 1 / (1 + exp(-x))  tanh(x) = 2 / (1 + exp(-2x)) - 1
log2(x) = log(x) / log(2)       exponentials: see `exponentials`
x if 0 < x else k*x = max(x, k*x) for k < 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeGuard

from ..lifting.idle_choices import special_places
from ..terms.scalar_rules import NARROW
from ..terms.term import CallTerm, Const, Int, Load, Term, Var, const, raw_call
from ..terms.traversal import rebuild, substitute
from .exponentials import exponential, inverse_of, masked, natural
from .extremes import extreme_of, select_value
from .sums.polynomial import Monomial, Poly, operands, ordered, plus, poly_of, times, to_term
from .sums.reroll import rerolled_factor


class RealForm(Protocol):
    """What gives the operands of an operation their form."""

    def __call__(self, term: Term) -> Term:
        """Return a term in the form."""

    def poly(self, term: Term) -> Poly:
        """Return a floating-point term as a polynomial over atoms in the form."""

    def compared(self, condition: Term) -> Term:
        """Return a comparison with its operands in the form."""


def _add(to_real: RealForm, call: CallTerm) -> Poly:
    sign = -1.0 if call.op == "sub" else 1.0
    return plus(to_real.poly(call.args[0]), to_real.poly(call.args[1]), sign)


def _mul(to_real: RealForm, call: CallTerm) -> Poly:
    for choice, other in (call.args, call.args[::-1]):
        if _is_choice(choice):  # of two factors
            condition, *factors = choice.args
            products = (raw_call("mul", (x, other), call.dtype) for x in factors)
            return _ite(to_real, raw_call("ite", (condition, *products), call.dtype))
    a, b = (rerolled_factor(to_real.poly(x), call.dtype) for x in call.args)
    return times(a, b, call.dtype)


def _is_choice(term: Term) -> TypeGuard[CallTerm]:
    """Whether a term is a selection between two literals."""
    is_ite = isinstance(term, CallTerm) and term.op == "ite"
    return is_ite and all(isinstance(x, Const) for x in term.args[1:])  # type: ignore[attr-defined]


def _div(to_real: RealForm, call: CallTerm) -> Poly:
    num, den = (rerolled_factor(to_real.poly(x), call.dtype) for x in call.args)
    return times(num, inverse_of(den, call.dtype), call.dtype)


def _exp(to_real: RealForm, call: CallTerm) -> Poly:
    exponent = to_real.poly(call.args[0])
    return _power(exponent if call.op == "exp" else natural(exponent, call.dtype), call.dtype)


def _power(exponent: Poly, dtype: str) -> Poly:
    """``exp`` of a polynomial, which is zero where the exponent is -inf."""
    chosen = masked(exponent)
    if chosen is None:
        return exponential(exponent, dtype)
    condition, kept, first = chosen
    value = _power(kept, dtype)
    return select_value(condition, condition, *(({}, value) if first else (value, {})), dtype)


def _sigmoid(to_real: RealForm, call: CallTerm) -> Poly:
    negative = plus({}, to_real.poly(call.args[0]), -1.0)
    return inverse_of(plus({(): 1.0}, exponential(negative, call.dtype)), call.dtype)


def _tanh(to_real: RealForm, call: CallTerm) -> Poly:
    """``tanh(x) = 2 * sigmoid(2 * x) - 1``, so that gelu by either is one form."""
    twice = plus({}, to_real.poly(call.args[0]), 2.0)
    half = _sigmoid(to_real, raw_call("sigmoid", (to_term(twice, call.dtype),), call.dtype))
    return plus({(): -1.0}, half, 2.0)


def _pow(to_real: RealForm, call: CallTerm) -> Poly:
    base, exponent = to_real.poly(call.args[0]), to_real.poly(call.args[1])
    if exponent == {(): 2.0}:
        base = rerolled_factor(base, call.dtype)
        return times(base, base, call.dtype)
    if base == {(): 2.0}:
        return _power(natural(exponent, call.dtype), call.dtype)
    return poly_of(rebuild(call, to_real), call.dtype)


def _log2(to_real: RealForm, call: CallTerm) -> Poly:
    logs, two = (
        raw_call("log", (x,), call.dtype) for x in (to_real(call.args[0]), const(2.0, call.dtype))
    )
    return times(poly_of(logs, call.dtype), inverse_of({(two,): 1.0}, call.dtype), call.dtype)


def _cast(to_real: RealForm, call: CallTerm) -> Poly:
    term = call.args[0]
    if isinstance(term, Int) and term.const is not None:
        return {(): float(term.const)} if term.const else {}
    if isinstance(term, Int) and all(_is_stored(m) for m, _ in term.terms):
        return {
            tuple(raw_call("cast", (x,), call.dtype) for x in m): float(c) for m, c in term.terms
        }
    return poly_of(rebuild(call, to_real), call.dtype)


def _is_stored(mono: Monomial) -> bool:
    """Whether a summand is a literal or a stored number of few bits."""
    return not mono or (len(mono) == 1 and isinstance(mono[0], Load) and mono[0].dtype in NARROW)


def _extreme(to_real: RealForm, call: CallTerm) -> Poly:
    nest = list(operands(call.op, call))  # whole, so that an unrolled loop is seen at once
    return poly_of(extreme_of(call.op, [to_real(x) for x in nest], call.dtype), call.dtype)


def _abs(to_real: RealForm, call: CallTerm) -> Poly:
    poly = to_real.poly(call.args[0])
    signed = [to_term(p, call.dtype) for p in (poly, plus({}, poly, -1.0))]
    return poly_of(extreme_of("max", signed, call.dtype), call.dtype)


def _ite(to_real: RealForm, call: CallTerm) -> Poly:
    condition, *branches = call.args
    form, test = to_real(condition), to_real.compared(condition)
    a, b = map(to_real.poly, branches)
    for kept, other, points in special_places(condition, a, b):
        if all(_at(kept, point) == _at(other, point) for point in points):
            return kept
    return select_value(form, test, a, b, call.dtype)


def _at(poly: Poly, point: Mapping[Var, Int]) -> Poly:
    """The polynomial at a coordinate."""
    out: Poly = {}
    for mono, coef in poly.items():
        out = plus(out, {ordered(substitute(x, point) for x in mono): coef})
    return out


#: By operator of TIR: the polynomial of a call.
RULES: dict[str, Callable[[RealForm, CallTerm], Poly]] = {
    "add": _add, "sub": _add, "mul": _mul, "div": _div, "pow": _pow, "log2": _log2,
    "sigmoid": _sigmoid, "tanh": _tanh, "cast": _cast, "max": _extreme, "min": _extreme,
    "abs": _abs, "ite": _ite, "exp": _exp, "exp2": _exp,
}  # fmt: skip
