"""Evaluate terms in iterations that exist only at N, where they may read padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from ...analysis.terms.scalar import conj, disj, ge0, negate, parts
from ...analysis.terms.term import (
    FALSE,
    INT_DTYPES,
    TRUE,
    CallTerm,
    Const,
    Fold,
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
from .padding_problem import Facts, Needs, PaddingProblem
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

    def known(self, t: Term, facts: Facts) -> bool: ...


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
        self.there: dict[Var, Term] = {**self.problem.at_bigger, **self.moved}

    def __call__(self, t: Term) -> Value:
        if isinstance(t, Const):
            return literal(t)
        if isinstance(t, Int):
            return self.integer(t)
        if isinstance(t, CallTerm) and not t.args and t.op.startswith("state"):
            return LoopState(t)
        if self.stable(t):
            return COMPUTED if self.plain else VALID
        if isinstance(t, Load):
            return self.load(t)
        if isinstance(t, Reduce):
            return self.reduce(t)
        if isinstance(t, CallTerm):
            return self.call(t)
        return ANYTHING

    def stable(self, t: Term) -> bool:
        """Return whether a term has the same value at n, finite if the valid elements are."""
        if t.dtype == "bool" or not free(t).isdisjoint(self.moved):
            return False
        if _stateful(t) or _indirect(t) or not (self.plain or _tame(t)):
            return False
        return self.same.known(t, self.facts)

    def assume(self, finite: bool) -> None:
        self.problem.finite = self.problem.finite or finite

    # -------------------------------------------------------------------- integers

    def integer(self, p: Int) -> Value:
        """Evaluate a polynomial whose data-dependent atoms are known numbers."""
        if not p.reads and not _stateful(p):
            there = as_int(substitute(p, self.there))
            return ANYTHING if there.const is None else KnownNumber(there.const)
        if p.atom is not None:
            return self.atom(p.atom)
        out = 0  # large values are unknown: the kernel's arithmetic may have overflowed
        for mono, coef in p.terms:
            part: int | None = coef
            for found in map(self.atom, mono):
                small = isinstance(found, KnownNumber) and abs(found.number) <= SMALL
                value = int(found.number) if small and isinstance(found, KnownNumber) else None
                if value == 0 or part == 0:
                    part = 0
                else:
                    part = None if part is None or value is None else part * value
            if part is None:
                return ANYTHING
            out += part
        return KnownNumber(out) if abs(out) <= SMALL else ANYTHING

    def atom(self, t: Term) -> Value:
        if isinstance(t, Load):
            return self.load(t)
        if isinstance(t, Reduce):
            return self.reduce(t)
        if isinstance(t, Var):
            there = as_int(substitute(t, self.there))
            return ANYTHING if there.const is None else KnownNumber(there.const)
        if not isinstance(t, CallTerm) or t.dtype == "bool":
            return ANYTHING
        if not t.args and t.op.startswith("state"):
            return LoopState(t)
        if t.op in ("lowest", "highest"):
            return KnownNumber(-math.inf if t.op == "lowest" else math.inf)
        if t.op == "ite":
            return self.choice(t)
        args = [self(a) for a in t.args]
        numbers = [
            int(a.number) for a in args if isinstance(a, KnownNumber) and math.isfinite(a.number)
        ]
        if len(numbers) < len(args):
            return ANYTHING
        if t.op in ("min", "max"):
            return KnownNumber(min(numbers) if t.op == "min" else max(numbers))
        if t.op == "floordiv" and numbers[1] > 0:
            return KnownNumber(numbers[0] // numbers[1])
        return ANYTHING

    def filled(self, t: Term) -> Term:
        """Return a condition at N, with known integers substituted for reads of the padding."""
        numbers: dict[Term, Term] = {}
        for s in subterms(t):
            found = self.load(s) if isinstance(s, Load) and s.dtype in INT_DTYPES else ANYTHING
            if isinstance(found, KnownNumber) and abs(found.number) <= SMALL:
                numbers[s] = integer(int(found.number))
        return substitute(replace(t, numbers), self.there)

    # -------------------------------------------------------------------- loads

    def load(self, t: Load) -> Value:
        inside: list[Term] = []
        outside: list[Term] = []
        for d in self.problem.grown.get(t.tensor, ()):
            i = as_int(substitute(t.indices[d], self.there))
            last = t.tensor.shape[d] - 1 - i
            inside.append(FALSE if i.reads else ge0(last))
            outside.append(FALSE if i.reads else negate(ge0(last)))
        if self.problem.holds(conj(*inside), self.facts):
            return VALID
        if self.problem.holds(disj(*outside), self.facts):
            if t.tensor not in self.problem.contents:
                raise Needs(t.tensor)
            return KnownNumber(self.problem.contents[t.tensor])
        content = self.problem.contents.get(t.tensor)
        return ANYTHING if content is None else joined(KnownNumber(content), VALID)

    # -------------------------------------------------------------------- operations

    def call(self, t: CallTerm) -> Value:
        if t.op == "ite":
            return self.choice(t)
        if t.op in ("ge0", "eq0"):
            return self.comparison(t)
        if t.op in ("and", "or", "not"):
            return self.connective(t)
        value, finite = computed(t, [self(a) for a in t.args])
        if value != ANYTHING:
            self.assume(finite)
        return value

    def decided(self, c: Term) -> bool | None:
        """Return whether a condition holds at N, or None if unknown."""
        found = self(c) if c is not TRUE and c is not FALSE else KnownNumber(c is TRUE)
        return bool(found.number) if isinstance(found, KnownNumber) else None

    def choice(self, t: CallTerm) -> Value:
        c, a, b = t.args
        found = self.decided(c)
        if found is not None:
            return self.under(TRUE)(a if found else b)
        there = substitute(c, self.there)
        if there.reads:
            return joined(self(a), self(b))
        yes, no = (self.under(x)(y) for x, y in ((there, a), (negate(there), b)))
        return joined(yes, no)

    def under(self, c: Term) -> Values:
        return Values(self.same, (*self.facts, *parts(c)), self.moved)

    def comparison(self, t: CallTerm) -> Value:
        found = self.integer(as_int(t.args[0]))
        if isinstance(found, KnownNumber):
            return KnownNumber(found.number >= 0 if t.op == "ge0" else found.number == 0)
        there = self.filled(t)
        if there.reads or _stateful(there):
            return ANYTHING
        if self.problem.holds(there, self.facts):
            return KnownNumber(True)
        return KnownNumber(False) if self.problem.holds(negate(there), self.facts) else ANYTHING

    def connective(self, t: CallTerm) -> Value:
        args = [self(a) for a in t.args]
        known = [bool(a.number) for a in args if isinstance(a, KnownNumber)]
        if t.op == "not":
            return KnownNumber(not known[0]) if known else ANYTHING
        absorbing = t.op == "or"
        if absorbing in known:
            return KnownNumber(absorbing)
        if len(known) == len(args):
            return KnownNumber(not absorbing)
        there = self.filled(t)
        if there.reads or _stateful(there):
            return ANYTHING
        if self.problem.holds(negate(there), self.facts):
            return KnownNumber(False)
        return KnownNumber(True) if self.problem.holds(there, self.facts) else ANYTHING

    def reduce(self, t: Reduce) -> Value:
        """Evaluate a nested reduction whose iterations all have the same known value."""
        init = self(t.init)
        if not independent(t.axes):
            return ANYTHING
        moved = dict(self.moved)
        some = conj()
        for a in t.axes:
            assert a.extent is not None
            extent = as_int(substitute(a.extent, self.there))
            some = conj(some, ge0(extent - 1))
            if extent is not a.extent:
                moved[a] = as_int(fresh(extent, "all"))
        body = Values(self.same, self.facts, moved)(
            t.body
        )  # the loops of this reduction are not plain
        if not (isinstance(init, KnownNumber) and isinstance(body, KnownNumber)):
            return ANYTHING
        if t.op in ("max", "min") and self.problem.holds(some, self.facts):
            return KnownNumber((max if t.op == "max" else min)(init.number, body.number))
        units = {"add": 0, "mul": 1, "and": True, "or": False}
        return init if t.op in units and body.number == units[t.op] else ANYTHING


def literal(t: Term) -> Value:
    """Evaluate a term at n, where all loads are valid: a literal, or unknown."""
    if isinstance(t, Const) and not isinstance(t.value, str):
        return KnownNumber(t.value)
    return KnownNumber(t.const) if isinstance(t, Int) and t.const is not None else ANYTHING


def _stateful(t: Term) -> bool:
    """Return whether a term contains the state of a loop."""
    found: bool | None = t.memo.get("stateful")
    if found is None:
        own = isinstance(t, CallTerm) and not t.args and t.op.startswith("state")
        found = t.memo["stateful"] = own or any(map(_stateful, t.children))
    return found


#: Operations that are finite for finite operands, apart from overflow.
_TAME = frozenset({"add", "sub", "mul", "neg", "abs", "min", "max", "tanh", "sigmoid", "erf",
                   "floor", "ceil", "ite", "ge0", "eq0", "and", "or", "not", "lt", "le", "gt",
                   "ge", "eq", "ne"})  # fmt: skip


def independent(axes: tuple[Var, ...]) -> bool:
    """Return whether no axis has an extent that depends on another axis."""
    return not any(a.extent is not None and not free(a.extent).isdisjoint(axes) for a in axes)


def _tame(t: Term) -> bool:
    """Return whether a term is finite even in iterations that do not exist at n."""
    own = t.op in _TAME if isinstance(t, (CallTerm, Reduce)) else not isinstance(t, Fold)
    return own and all(map(_tame, t.children))


def _indirect(t: Term) -> bool:
    """Return whether data determines an index."""
    return any(isinstance(s, Load) and any(i.reads for i in s.indices) for s in subterms(t))
