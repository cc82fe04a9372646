"""Terms in real arithmetic: one form for terms that differ only by rounding.

    a / sqrt(b) = a * rsqrt(b)      Σ_k c*f = c * Σ_k f      (a - b)² = a² - 2ab + b²
    operations: see `real_operations`    recurrences: see `folds`

A floating-point term becomes a sum of products of atoms with literal coefficients. A factor that
may be zero is not cancelled: ``x * (1 / x)`` stays. Discontinuous operations (floor, a comparison,
a cast to an integer) keep their operands, because rounding may change their result. So two terms
with one form are equal up to rounding, wherever every intermediate value is finite.
"""

from __future__ import annotations

from ..lifting.loops.reduction import canonical
from ..lifting.loops.reduction_axes import is_count
from ..proofs.context import simplify
from ..terms.condition_terms import ite
from ..terms.reduction_terms import reduce, split_guard
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
from ..terms.traversal import free, rebuild
from .exponentials import joined
from .extremes import absorb_init, of_init
from .folds import reduced_fold
from .real_operations import RULES
from .shifts import least_shift
from .signed_extremes import signed
from .sums.budget import limited
from .sums.polynomial import (
    REAL,
    Monomial,
    Poly,
    combine_all,
    ordered,
    plus,
    poly_of,
    product_of,
    to_term,
)
from .sums.reroll import forward, prolong, reroll_product, reroll_sum


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
        rolled = reroll_sum(self.poly(term), term.dtype)
        out: Poly = {}
        for mono, coef in rolled.items():
            out = plus(out, {reroll_product(mono, term.dtype): coef})
        return to_term(out, term.dtype)

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
        if isinstance(term, CallTerm) and term.op in RULES:
            return RULES[term.op](self, term)
        return poly_of(rebuild(term, self), term.dtype)

    def compared(self, condition: Term) -> Term:
        """Return a comparison with its operands in this form, for a selection between them."""
        return rebuild(condition, self) if isinstance(condition, CallTerm) else condition

    # ------------------------------------------------------------------ reductions

    def reduction(self, reduction: Reduce) -> Poly:
        if reduction.op in ("max", "min"):
            rebuilt = rebuild(reduction, self)
            return poly_of(
                of_init(absorb_init(rebuilt)) if isinstance(rebuilt, Reduce) else rebuilt,
                reduction.dtype,
            )
        if reduction.op != "add":
            return poly_of(rebuild(reduction, self), reduction.dtype)
        reduction = prolong(reduction)
        guard, body = split_guard(reduction.body, const(0.0, reduction.dtype))
        out = dict(self.poly(reduction.init))
        for mono, coef in self.poly(self(body)).items():
            out = plus(out, _summed(reduction, guard, mono, coef))
        return out

    def fold(self, loop: Fold) -> Poly:
        reduced = reduced_fold(loop, self, self.poly)
        return poly_of(rebuild(loop, self), loop.dtype) if reduced is None else reduced


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
