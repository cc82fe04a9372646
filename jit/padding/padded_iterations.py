"""Evaluate terms in iterations that exist only at N, where they may read padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from ...analysis.terms.condition_terms import conj, disj, ge0, negate, parts
from ...analysis.terms.term import (
    FALSE,
    INT_DTYPES,
    TRUE,
    CallTerm,
    Const,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    as_int,
    fresh,
    integer,
)
from ...analysis.terms.traversal import free, replace, substitute, subterms
from .iteration_terms import has_state, independent, is_indirect, is_tame, literal
from .padding_problem import Facts, PaddingProblem, UnknownContent
from .padding_value import (
    ANYTHING,
    COMPUTED,
    VALID,
    KnownNumber,
    LoopState,
    Value,
    computed,
    joined,
)

#: Bound on integers whose arithmetic cannot overflow in practice.
SMALL = 2**20


class EqualityProver(Protocol):
    """Proves that terms have the same value at n and N; see `jit.padding.padding_equality`."""

    problem: PaddingProblem

    def proves(self, term: Term, facts: Facts) -> bool: ...


class Values:
    """Evaluates terms at N under facts.

    ``moved`` maps loop variables of enclosing reductions that leave the valid iterations to their
    values at N. ``plain`` says that the term is also computed at n, in every iteration of these
    loops, and that there is at least one.
    """

    def __init__(
        self, same: EqualityProver, facts: Facts, moved: Mapping[Var, Term], plain: bool = False
    ) -> None:
        self.same, self.facts, self.moved, self.plain = same, facts, dict(moved), plain
        self.problem = same.problem
        self.at_bigger: dict[Var, Term] = {**self.problem.at_bigger, **self.moved}

    def __call__(self, term: Term) -> Value:
        if isinstance(term, Const):
            return literal(term)
        if isinstance(term, Int):
            return self.integer(term)
        if isinstance(term, CallTerm) and not term.args and term.op.startswith("state"):
            return LoopState(term)
        if self.stable(term):
            return COMPUTED if self.plain else VALID
        if isinstance(term, Load):
            return self.load(term)
        if isinstance(term, Reduce):
            return self.reduce(term)
        if isinstance(term, CallTerm):
            return self.call(term)
        return ANYTHING

    def stable(self, term: Term) -> bool:
        """Return whether a term has the same value at n, finite if the valid elements are."""
        if term.dtype == "bool" or not free(term).isdisjoint(self.moved):
            return False
        if has_state(term) or is_indirect(term) or not (self.plain or is_tame(term)):
            return False
        return self.same.proves(term, self.facts)

    def assume(self, finite: bool) -> None:
        self.problem.finite = self.problem.finite or finite

    # -------------------------------------------------------------------- integers

    def integer(self, poly: Int) -> Value:
        """Evaluate a polynomial whose data-dependent atoms are known numbers."""
        if not poly.reads and not has_state(poly):
            bigger = as_int(substitute(poly, self.at_bigger))
            return ANYTHING if bigger.const is None else KnownNumber(bigger.const)
        if poly.atom is not None:
            return self.atom(poly.atom)
        out = 0  # large values are unknown: the kernel's arithmetic may have overflowed
        for mono, coef in poly.terms:
            part: int | None = coef
            for factor in map(self.atom, mono):
                small = isinstance(factor, KnownNumber) and abs(factor.number) <= SMALL
                value = int(factor.number) if small and isinstance(factor, KnownNumber) else None
                if value == 0 or part == 0:
                    part = 0
                else:
                    part = None if part is None or value is None else part * value
            if part is None:
                return ANYTHING
            out += part
        return KnownNumber(out) if abs(out) <= SMALL else ANYTHING

    def atom(self, term: Term) -> Value:
        if isinstance(term, Load):
            return self.load(term)
        if isinstance(term, Reduce):
            return self.reduce(term)
        if isinstance(term, Var):
            bigger = as_int(substitute(term, self.at_bigger))
            return ANYTHING if bigger.const is None else KnownNumber(bigger.const)
        if not isinstance(term, CallTerm) or term.dtype == "bool":
            return ANYTHING
        if not term.args and term.op.startswith("state"):
            return LoopState(term)
        if term.op in ("lowest", "highest"):
            return KnownNumber(-math.inf if term.op == "lowest" else math.inf)
        if term.op == "ite":
            return self.choice(term)
        args = [self(arg) for arg in term.args]
        numbers = [
            int(arg.number)
            for arg in args
            if isinstance(arg, KnownNumber) and math.isfinite(arg.number)
        ]
        if len(numbers) < len(args):
            return ANYTHING
        if term.op in ("min", "max"):
            return KnownNumber(min(numbers) if term.op == "min" else max(numbers))
        if term.op == "floordiv" and numbers[1] > 0:
            return KnownNumber(numbers[0] // numbers[1])
        return ANYTHING

    def filled(self, term: Term) -> Term:
        """Return a condition at N, with known integers substituted for reads of the padding."""
        numbers: dict[Term, Term] = {}
        for subterm in subterms(term):
            if not (isinstance(subterm, Load) and subterm.dtype in INT_DTYPES):
                continue
            value = self.load(subterm)
            if isinstance(value, KnownNumber) and abs(value.number) <= SMALL:
                numbers[subterm] = integer(int(value.number))
        return substitute(replace(term, numbers), self.at_bigger)

    # -------------------------------------------------------------------- loads

    def load(self, load: Load) -> Value:
        inside: list[Term] = []
        outside: list[Term] = []
        for d in self.problem.grown.get(load.tensor, ()):
            poly = as_int(substitute(load.indices[d], self.at_bigger))
            last = load.tensor.shape[d] - 1 - poly
            inside.append(FALSE if poly.reads else ge0(last))
            outside.append(FALSE if poly.reads else negate(ge0(last)))
        if self.problem.holds(conj(*inside), self.facts):
            return VALID
        if self.problem.holds(disj(*outside), self.facts):
            if load.tensor not in self.problem.contents:
                raise UnknownContent(load.tensor)
            return KnownNumber(self.problem.contents[load.tensor])
        content = self.problem.contents.get(load.tensor)
        return ANYTHING if content is None else joined(KnownNumber(content), VALID)

    # -------------------------------------------------------------------- operations

    def call(self, call: CallTerm) -> Value:
        if call.op == "ite":
            return self.choice(call)
        if call.op in ("ge0", "eq0"):
            return self.comparison(call)
        if call.op in ("and", "or", "not"):
            return self.connective(call)
        value, finite = computed(call, [self(a) for a in call.args])
        if value != ANYTHING:
            self.assume(finite)
        return value

    def decided(self, term: Term) -> bool | None:
        """Return whether a condition holds at N, or None if unknown."""
        value = self(term) if term is not TRUE and term is not FALSE else KnownNumber(term is TRUE)
        return bool(value.number) if isinstance(value, KnownNumber) else None

    def choice(self, call: CallTerm) -> Value:
        condition, a, b = call.args
        outcome = self.decided(condition)
        if outcome is not None:
            return self.under(TRUE)(a if outcome else b)
        bigger = substitute(condition, self.at_bigger)
        if bigger.reads:
            return joined(self(a), self(b))
        yes, no = (self.under(x)(y) for x, y in ((bigger, a), (negate(bigger), b)))
        return joined(yes, no)

    def under(self, term: Term) -> Values:
        return Values(self.same, (*self.facts, *parts(term)), self.moved)

    def comparison(self, call: CallTerm) -> Value:
        value = self.integer(as_int(call.args[0]))
        if isinstance(value, KnownNumber):
            return KnownNumber(value.number >= 0 if call.op == "ge0" else value.number == 0)
        bigger = self.filled(call)
        if bigger.reads or has_state(bigger):
            return ANYTHING
        if self.problem.holds(bigger, self.facts):
            return KnownNumber(True)
        return KnownNumber(False) if self.problem.holds(negate(bigger), self.facts) else ANYTHING

    def connective(self, call: CallTerm) -> Value:
        args = [self(a) for a in call.args]
        booleans = [bool(a.number) for a in args if isinstance(a, KnownNumber)]
        if call.op == "not":
            return KnownNumber(not booleans[0]) if booleans else ANYTHING
        absorbing = call.op == "or"
        if absorbing in booleans:
            return KnownNumber(absorbing)
        if len(booleans) == len(args):
            return KnownNumber(not absorbing)
        bigger = self.filled(call)
        if bigger.reads or has_state(bigger):
            return ANYTHING
        if self.problem.holds(negate(bigger), self.facts):
            return KnownNumber(False)
        return KnownNumber(True) if self.problem.holds(bigger, self.facts) else ANYTHING

    def reduce(self, reduction: Reduce) -> Value:
        """Evaluate a nested reduction whose iterations all have the same known value."""
        init = self(reduction.init)
        if not independent(reduction.axes):
            return ANYTHING
        moved = dict(self.moved)
        some = conj()
        for var in reduction.axes:
            assert var.extent is not None
            extent = as_int(substitute(var.extent, self.at_bigger))
            some = conj(some, ge0(extent - 1))
            if extent is not var.extent:
                moved[var] = as_int(fresh(extent, "all"))
        body = Values(self.same, self.facts, moved)(
            reduction.body
        )  # the loops of this reduction are not plain
        if not (isinstance(init, KnownNumber) and isinstance(body, KnownNumber)):
            return ANYTHING
        if reduction.op in ("max", "min") and self.problem.holds(some, self.facts):
            return KnownNumber((max if reduction.op == "max" else min)(init.number, body.number))
        units = {"add": 0, "mul": 1, "and": True, "or": False}
        return init if reduction.op in units and body.number == units[reduction.op] else ANYTHING
