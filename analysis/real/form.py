"""Terms in real arithmetic: one form for terms that differ only by rounding.

    a / sqrt(b) = a * rsqrt(b)      Σ_k c*f = c * Σ_k f      (a - b)² = a² - 2ab + b²
    sigmoid(x) = 1 / (1 + exp(-x))  x if 0 < x else k*x = max(x, k*x) for k < 1

A floating-point term becomes a sum of products of atoms with literal coefficients. A factor that
may be zero is not cancelled: ``x * (1 / x)`` stays. Discontinuous operations (floor, a comparison,
a cast to an integer) keep their operands, because rounding may change their result. So two terms
with one form are equal up to rounding, wherever every intermediate value is finite.
"""

from __future__ import annotations

from collections.abc import Callable

from ..lifting.loops.reduction import canonical
from ..terms.scalar import ite, reduce, split_guard
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
from ..terms.traversal import free, rebuild, subterms
from .budget import limited
from .extremes import absorb_init, extreme_of, select_value
from .polynomial import (
    REAL,
    Monomial,
    Poly,
    combine_all,
    inverse,
    of,
    operands,
    ordered,
    plus,
    product_of,
    times,
    to_term,
)
from .reroll import forward, prolong, reroll_sum


def real(t: Term) -> Term:
    """Return the form of a term in real arithmetic; terms of other types are unchanged.

    Raises:
        TooLarge: The form has too many monomials.
    """
    form: Term | None = recall(t, "real")
    if form is None:
        with limited():
            form = canonical(_Real()(t))
        remember(t, "real", form)
    return form


class _Real:
    def __init__(self) -> None:
        self.memo: dict[Term, Term] = {}
        self.polys: dict[Term, Poly] = {}

    def __call__(self, t: Term) -> Term:
        form = self.memo.get(t)
        if form is None:
            form = self.memo[t] = self.term(t)
        return form

    def term(self, t: Term) -> Term:
        if isinstance(t, (Int, Var, Load)):
            return t
        if t.dtype not in REAL:
            return t if isinstance(t, Const) or _jumps(t) else rebuild(t, self)
        return to_term(reroll_sum(self.poly(t), t.dtype), t.dtype)

    def poly(self, t: Term) -> Poly:
        """Return a floating-point term as a polynomial over atoms in this form."""
        form = self.polys.get(t)
        if form is None:
            form = self.polys[t] = self.expanded(t)
        return form

    def expanded(self, t: Term) -> Poly:
        if isinstance(t, Const):
            return of(t, t.dtype)
        if isinstance(t, Reduce):
            return self.reduction(t)
        if isinstance(t, Fold):
            return self.fold(t)
        if _jumps(t):
            return {(t,): 1.0}
        if isinstance(t, CallTerm) and t.op in _RULES:
            return _RULES[t.op](self, t)
        return of(rebuild(t, self), t.dtype)

    def compared(self, condition: Term) -> Term:
        """Return a comparison with its operands in this form, for a selection between them."""
        return rebuild(condition, self) if isinstance(condition, CallTerm) else condition

    # ------------------------------------------------------------------ reductions

    def reduction(self, r: Reduce) -> Poly:
        if r.op in ("max", "min"):
            rebuilt = rebuild(r, self)
            return of(absorb_init(rebuilt) if isinstance(rebuilt, Reduce) else rebuilt, r.dtype)
        if r.op != "add":
            return of(rebuild(r, self), r.dtype)
        r = prolong(r)
        guard, body = split_guard(r.body, const(0.0, r.dtype))
        out = dict(self.poly(r.init))
        for mono, c in self.poly(self(body)).items():
            out = plus(out, _summed(r, guard, mono, c))
        return out

    def fold(self, f: Fold) -> Poly:
        """Return ``for k: s = max(s, g)`` as a maximum over k, if g does not read s."""
        if len(f.states) != 1:
            return of(rebuild(f, self), f.dtype)
        state, update = f.states[0], self(f.updates[0])
        for op in ("max", "min", "add"):
            if not (isinstance(update, CallTerm) and update.op == op):
                continue
            terms = list(operands(op, update))
            others = [x for x in terms if x is not state]
            if len(others) + 1 != len(terms) or any(state in set(subterms(x)) for x in others):
                continue
            body = combine_all(op, others, f.dtype)
            return self.poly(reduce(op, (f.axis,), body, f.inits[0], f.dtype))
        return of(rebuild(f, self), f.dtype)


def _summed(r: Reduce, guard: Term, mono: Monomial, c: float) -> Poly:
    """``Σ_axes c * Π mono``, with factors that do not depend on the axes before the sum."""
    axes = frozenset(r.axes)
    inside = [x for x in mono if not axes.isdisjoint(free(x))]
    outside = [x for x in mono if axes.isdisjoint(free(x))]
    product = combine_all("mul", inside, r.dtype)
    used = free(product) | free(guard)
    count, count_term = 1, ONE
    for a in (a for a in r.axes if a not in used):
        assert a.extent is not None
        if a.extent.const is not None:
            count *= a.extent.const
        else:
            count_term = mul(count_term, a.extent)
    if count_term is not ONE:
        outside.append(raw_call("cast", (count_term,), r.dtype))
    kept = tuple(a for a in r.axes if a in used)
    zero = const(0.0, r.dtype)
    if kept or guard is not TRUE:
        outside.append(
            canonical(forward(reduce("add", kept, ite(guard, product, zero), zero, r.dtype)))
        )
    return product_of({ordered(outside): c * count})


_STEPS = frozenset({"floor", "ceil", "round", "trunc", "nearbyint"})
_TESTS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def _jumps(t: Term) -> bool:
    """Whether a small change of an operand may change the result by much."""
    if not isinstance(t, CallTerm):
        return False
    real_operands = any(x.dtype in REAL for x in t.args)
    return t.op in _STEPS or (real_operands and (t.op in _TESTS or t.dtype not in REAL))


# ---------------------------------------------------------------------------- operations

Rule = Callable[[_Real, CallTerm], Poly]


def _add(n: _Real, t: CallTerm) -> Poly:
    return plus(n.poly(t.args[0]), n.poly(t.args[1]), -1.0 if t.op == "sub" else 1.0)


def _mul(n: _Real, t: CallTerm) -> Poly:
    return times(n.poly(t.args[0]), n.poly(t.args[1]), t.dtype)


def _div(n: _Real, t: CallTerm) -> Poly:
    return times(n.poly(t.args[0]), inverse(n.poly(t.args[1]), t.dtype), t.dtype)


def _sigmoid(n: _Real, t: CallTerm) -> Poly:
    exp = raw_call("exp", (to_term(plus({}, n.poly(t.args[0]), -1.0), t.dtype),), t.dtype)
    return inverse({(): 1.0, (exp,): 1.0}, t.dtype)


def _pow(n: _Real, t: CallTerm) -> Poly:
    base, exponent = n.poly(t.args[0]), n.poly(t.args[1])
    if exponent == {(): 2.0}:
        return times(base, base, t.dtype)
    return of(rebuild(t, n), t.dtype)


def _cast(n: _Real, t: CallTerm) -> Poly:
    x = t.args[0]
    if isinstance(x, Int) and x.const is not None:
        return {(): float(x.const)} if x.const else {}
    return of(rebuild(t, n), t.dtype)


def _extreme(n: _Real, t: CallTerm) -> Poly:
    return of(extreme_of(t.op, [n(x) for x in t.args], t.dtype), t.dtype)


def _abs(n: _Real, t: CallTerm) -> Poly:
    x = n.poly(t.args[0])
    return of(
        extreme_of("max", [to_term(x, t.dtype), to_term(plus({}, x, -1.0), t.dtype)], t.dtype),
        t.dtype,
    )


def _ite(n: _Real, t: CallTerm) -> Poly:
    condition, a, b = t.args
    return select_value(n(condition), n.compared(condition), n.poly(a), n.poly(b), t.dtype)


_RULES: dict[str, Rule] = {
    "add": _add, "sub": _add, "mul": _mul, "div": _div, "pow": _pow,
    "sigmoid": _sigmoid, "cast": _cast, "max": _extreme, "min": _extreme, "abs": _abs, "ite": _ite,
}  # fmt: skip
