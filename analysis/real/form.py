"""Terms in real arithmetic: one form for terms that differ only by rounding.

    a / sqrt(b) = a * rsqrt(b)      Σ_k c*f = c * Σ_k f      (a - b)² = a² - 2ab + b²
    sigmoid(x) = 1 / (1 + exp(-x))  tanh(x) = 2 / (1 + exp(-2x)) - 1
    log2(x) = log(x) / log(2)       exponentials: see `exponentials`
    x if 0 < x else k*x = max(x, k*x) for k < 1

A floating-point term becomes a sum of products of atoms with literal coefficients. A factor that
may be zero is not cancelled: ``x * (1 / x)`` stays. Discontinuous operations (floor, a comparison,
a cast to an integer) keep their operands, because rounding may change their result. So two terms
with one form are equal up to rounding, wherever every intermediate value is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from ..lifting.idle_choices import special_places
from ..lifting.loops.reduction import canonical
from ..lifting.loops.reduction_axes import is_count
from ..proofs.context import simplify
from ..terms.condition_terms import ite
from ..terms.reduction_terms import reduce, split_guard
from ..terms.scalar import NARROW
from ..terms.term import (
    ONE,
    TRUE,
    CallTerm,
    Const,
    Fold,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    const,
    mul,
    raw_call,
    recall,
    remember,
)
from ..terms.traversal import free, rebuild, substitute, subterms
from .budget import limited
from .exponentials import exponential, inverse_of, joined, masked, natural
from .extremes import absorb_init, extreme_of, select_value, signed
from .polynomial import (
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
from .reroll import forward, prolong, reroll_sum
from .rescaled import rescaled_sum, without_constants
from .running import running_moment, telescoped
from .shifts import least_shift


def real(term: Term) -> Term:
    """Return the form of a term in real arithmetic; terms of other types are unchanged.

    Raises:
        TooLarge: The form has too many monomials.
    """
    form: Term | None = recall(term, "real")
    if form is None:
        with limited():
            form = canonical(_Real()(simplify(term)))
        remember(term, "real", form)
    return form


class _Real:
    """Rewrites terms to their form in real arithmetic; each subterm once."""

    def __init__(self) -> None:
        self.memo: dict[Term, Term] = {}
        self.polys: dict[Term, Poly] = {}

    def __call__(self, term: Term) -> Term:
        form = self.memo.get(term)
        if form is None:
            form = self.memo[term] = self.term(term)
        return form

    def term(self, term: Term) -> Term:
        if isinstance(term, (Int, Var, Load)):
            return term
        if term.dtype not in REAL:
            return term if isinstance(term, Const) or _jumps(term) else rebuild(term, self)
        return to_term(reroll_sum(self.poly(term), term.dtype), term.dtype)

    def poly(self, term: Term) -> Poly:
        """Return a floating-point term as a polynomial over atoms in this form."""
        form = self.polys.get(term)
        if form is None:
            form = signed(joined(self.expanded(term), term.dtype), term.dtype)
            form = least_shift(form)
            self.polys[term] = form
        return form

    def expanded(self, term: Term) -> Poly:
        if isinstance(term, Const):
            return poly_of(term, term.dtype)
        if isinstance(term, Reduce):
            return self.reduction(term)
        if isinstance(term, Fold):
            return self.fold(term)
        if _jumps(term):
            return {(term,): 1.0}
        if isinstance(term, CallTerm) and term.op in _RULES:
            return _RULES[term.op](self, term)
        return poly_of(rebuild(term, self), term.dtype)

    def compared(self, condition: Term) -> Term:
        """Return a comparison with its operands in this form, for a selection between them."""
        return rebuild(condition, self) if isinstance(condition, CallTerm) else condition

    # ------------------------------------------------------------------ reductions

    def reduction(self, reduction: Reduce) -> Poly:
        if reduction.op in ("max", "min"):
            rebuilt = rebuild(reduction, self)
            return poly_of(
                absorb_init(rebuilt) if isinstance(rebuilt, Reduce) else rebuilt, reduction.dtype
            )
        if reduction.op != "add":
            return poly_of(rebuild(reduction, self), reduction.dtype)
        reduction = prolong(reduction)
        guard, body = split_guard(reduction.body, const(0.0, reduction.dtype))
        out = dict(self.poly(reduction.init))
        for mono, coef in self.poly(self(body)).items():
            out = plus(out, _summed(reduction, guard, mono, coef))
        return out

    def fold(self, fold: Fold) -> Poly:
        """Return ``for k: s = max(s, g)`` as a maximum over k, if g does not read s.

        Of several states, those of `rescaled` and `running` are reduced to one.
        """
        if len(fold.states) != 1:
            shorter = without_constants(fold, self.poly)
            if shorter is not None:
                return self.poly(shorter)
            total = rescaled_sum(fold, self.poly)
            if total is not None:
                return self.poly(total)
            moment = running_moment(fold, self.poly)
            if moment is not None:
                return self.poly(to_term(moment, fold.dtype))
            return poly_of(rebuild(fold, self), fold.dtype)
        moment = running_moment(fold, self.poly)
        if moment is not None:
            return self.poly(to_term(moment, fold.dtype))
        choice = fold.updates[0]
        if isinstance(choice, CallTerm) and choice.op == "ite":
            window = telescoped(fold, self.poly(choice.args[1]), self.poly)
            if window is not None:
                return window
        state, update = fold.states[0], self(fold.updates[0])
        if isinstance(update, Reduce) and update.init is state:
            if all(s is not state for s in subterms(update.body)):
                axes = (fold.axis, *update.axes)
                out = reduce(update.op, axes, update.body, fold.inits[0], fold.dtype)
                return self.poly(out)
        for op in ("max", "min", "add"):
            if not (isinstance(update, CallTerm) and update.op == op):
                continue
            terms = list(operands(op, update))
            others = [x for x in terms if x is not state]
            if len(others) + 1 != len(terms) or any(state in set(subterms(x)) for x in others):
                continue
            body = combine_all(op, others, fold.dtype)
            return self.poly(reduce(op, (fold.axis,), body, fold.inits[0], fold.dtype))
        return poly_of(rebuild(fold, self), fold.dtype)


def _summed(reduction: Reduce, guard: Term, mono: Monomial, coef: float) -> Poly:
    """``Σ_axes coef * Π mono``, with factors that do not depend on the axes before the sum."""
    axes = frozenset(reduction.axes)
    inside = [x for x in mono if not axes.isdisjoint(free(x))]
    outside = [x for x in mono if axes.isdisjoint(free(x))]
    product = combine_all("mul", inside, reduction.dtype)
    used = free(product) | free(guard)
    used |= {a for a in axes if a.extent is not None and not is_count(a.extent)}  # perhaps no terms
    count, count_term = 1, ONE
    for var in (a for a in reduction.axes if a not in used):
        assert var.extent is not None
        if var.extent.const is not None:
            count *= var.extent.const
        else:
            count_term = mul(count_term, var.extent)
    if count_term is not ONE:
        outside.append(raw_call("cast", (count_term,), reduction.dtype))
    kept = tuple(a for a in reduction.axes if a in used)
    zero = const(0.0, reduction.dtype)
    if kept or guard is not TRUE:
        outside.append(
            canonical(
                forward(reduce("add", kept, ite(guard, product, zero), zero, reduction.dtype))
            )
        )
    return product_of({ordered(outside): coef * count})


_STEPS = frozenset({"floor", "ceil", "round", "trunc", "nearbyint"})
_TESTS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def _jumps(term: Term) -> bool:
    """Whether a small change of an operand may change the result by much."""
    if not isinstance(term, CallTerm):
        return False
    real_operands = any(x.dtype in REAL for x in term.args)
    return term.op in _STEPS or (real_operands and (term.op in _TESTS or term.dtype not in REAL))


# ---------------------------------------------------------------------------- operations

Rule = Callable[[_Real, CallTerm], Poly]


def _add(to_real: _Real, call: CallTerm) -> Poly:
    sign = -1.0 if call.op == "sub" else 1.0
    return plus(to_real.poly(call.args[0]), to_real.poly(call.args[1]), sign)


def _mul(to_real: _Real, call: CallTerm) -> Poly:
    for choice, other in (call.args, call.args[::-1]):
        if _is_choice(choice):  # of two factors
            condition, *factors = choice.args
            products = (raw_call("mul", (x, other), call.dtype) for x in factors)
            return _ite(to_real, raw_call("ite", (condition, *products), call.dtype))
    return times(to_real.poly(call.args[0]), to_real.poly(call.args[1]), call.dtype)


def _is_choice(term: Term) -> TypeGuard[CallTerm]:
    """Whether a term is a selection between two literals."""
    is_ite = isinstance(term, CallTerm) and term.op == "ite"
    return is_ite and all(isinstance(x, Const) for x in term.args[1:])  # type: ignore[attr-defined]


def _div(to_real: _Real, call: CallTerm) -> Poly:
    num, den = to_real.poly(call.args[0]), to_real.poly(call.args[1])
    return times(num, inverse_of(den, call.dtype), call.dtype)


def _exp(to_real: _Real, call: CallTerm) -> Poly:
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


def _sigmoid(to_real: _Real, call: CallTerm) -> Poly:
    negative = plus({}, to_real.poly(call.args[0]), -1.0)
    return inverse_of(plus({(): 1.0}, exponential(negative, call.dtype)), call.dtype)


def _tanh(to_real: _Real, call: CallTerm) -> Poly:
    """``tanh(x) = 2 * sigmoid(2 * x) - 1``, so that gelu by either is one form."""
    twice = plus({}, to_real.poly(call.args[0]), 2.0)
    half = _sigmoid(to_real, raw_call("sigmoid", (to_term(twice, call.dtype),), call.dtype))
    return plus({(): -1.0}, half, 2.0)


def _pow(to_real: _Real, call: CallTerm) -> Poly:
    base, exponent = to_real.poly(call.args[0]), to_real.poly(call.args[1])
    if exponent == {(): 2.0}:
        return times(base, base, call.dtype)
    if base == {(): 2.0}:
        return _power(natural(exponent, call.dtype), call.dtype)
    return poly_of(rebuild(call, to_real), call.dtype)


def _log2(to_real: _Real, call: CallTerm) -> Poly:
    logs, two = (
        raw_call("log", (x,), call.dtype) for x in (to_real(call.args[0]), const(2.0, call.dtype))
    )
    return times(poly_of(logs, call.dtype), inverse_of({(two,): 1.0}, call.dtype), call.dtype)


def _cast(to_real: _Real, call: CallTerm) -> Poly:
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


def _extreme(to_real: _Real, call: CallTerm) -> Poly:
    nest = list(operands(call.op, call))  # whole, so that an unrolled loop is seen at once
    return poly_of(extreme_of(call.op, [to_real(x) for x in nest], call.dtype), call.dtype)


def _abs(to_real: _Real, call: CallTerm) -> Poly:
    poly = to_real.poly(call.args[0])
    signed = [to_term(p, call.dtype) for p in (poly, plus({}, poly, -1.0))]
    return poly_of(extreme_of("max", signed, call.dtype), call.dtype)


def _ite(to_real: _Real, call: CallTerm) -> Poly:
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


_RULES: dict[str, Rule] = {
    "add": _add, "sub": _add, "mul": _mul, "div": _div, "pow": _pow, "log2": _log2,
    "sigmoid": _sigmoid, "tanh": _tanh, "cast": _cast, "max": _extreme, "min": _extreme,
    "abs": _abs, "ite": _ite, "exp": _exp, "exp2": _exp,
}  # fmt: skip
