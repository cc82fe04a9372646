"""Prove that a term has the same value at n and, over padded inputs, at N.

The proof is a recursion over the term under facts about its variables. Loads must read the same
valid element. Integers must be equal. Conditions must be equal, or the branches equal where they
are not. Reductions must run over the same iterations, or additional ones contribute nothing.
"""

from __future__ import annotations

import math

from ...analysis.terms.scalar import conj, eq0, ge0, identity, negate, parts
from ...analysis.terms.term import (
    FOREVER,
    INT_DTYPES,
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
    raw_call,
)
from ...analysis.terms.traversal import free, rebuild
from .padded_iterations import Values, independent, literal
from .padding_problem import Facts, Needs, PaddingProblem, Unproved
from .padding_value import KnownNumber, LoopState

#: Operations on integers and booleans that the provers interpret.
_INTERPRETED = frozenset({"ge0", "eq0", "and", "or", "not", "ite", "min", "max", "floordiv"})
#: Combiners for which a repeated element changes nothing.
_IDEMPOTENT = frozenset({"max", "min", "and", "or"})


class PaddingEquality:
    """Proves equality of terms for one problem; raises `Unproved`."""

    def __init__(self, problem: PaddingProblem) -> None:
        self.problem = problem
        self.proved: set[tuple[Term, Facts]] = set()

    def __call__(self, t: Term, facts: Facts) -> None:
        """Prove that a term is the same at n and N under the facts."""
        if not self.problem.depends(t) or (t, facts) in self.proved:
            return
        if isinstance(t, Int):
            self.integer(t, facts)
        elif isinstance(t, Load):
            self.load(t, facts)
        elif isinstance(t, Reduce):
            self.reduce(t, facts)
        elif isinstance(t, Fold):
            self.fold(t, facts)
        elif isinstance(t, CallTerm):
            self.call(t, facts)
        elif isinstance(t, Var):
            raise Unproved(f"{t!r} is used as a value")
        self.proved.add((t, facts))

    def known(self, t: Term, facts: Facts) -> bool:
        """Return whether the proof for a term succeeds."""
        try:
            self(t, facts)
        except Unproved:
            return False
        return True

    # -------------------------------------------------------------------- integers

    def abstract(self, t: Term, facts: Facts) -> Term:
        """Replace subterms that the provers cannot interpret by opaque names.

        Each of these subterms must itself be the same at n and N.
        """
        if isinstance(t, (Int, Var)):
            return rebuild(t, lambda c: self.abstract(c, facts)) if isinstance(t, Int) else t
        if not self.problem.depends(t) and not t.reads:
            return t
        if isinstance(t, CallTerm) and t.op in _INTERPRETED and _integral(t):
            return rebuild(t, lambda c: self.abstract(c, facts))
        self(t, facts)
        name = raw_call(f"same {t.uid}", (), t.dtype)
        return as_int(name) if t.dtype in INT_DTYPES else name

    def integer(self, p: Int, facts: Facts) -> None:
        if isinstance(p.atom, CallTerm) and p.atom.op == "ite" and p.reads:
            self.choice(p.atom, facts)
            return
        q = as_int(self.abstract(p, facts))
        bigger = self.problem.at(q)
        if bigger is q or self.problem.holds(eq0(q - bigger), facts):
            return
        raise Unproved(f"{_short(p)} changes when {self.problem.dim!r} grows")

    def load(self, t: Load, facts: Facts) -> None:
        for d, i in enumerate(t.indices):
            try:
                self(i, facts)
            except Unproved as e:
                raise Unproved(f"axis {d} of the read {_short(t)}: {e}") from None
        for d in self.problem.grown.get(t.tensor, ()):
            i = t.indices[d]
            if i.reads:
                continue  # a read that is executed at n stays inside the buffer there
            i = as_int(self.abstract(i, facts))
            inside = conj(ge0(i), ge0(t.tensor.shape[d] - 1 - i))
            if not self.problem.holds(inside, facts):
                raise Unproved(f"axis {d} of the read {_short(t)} may be in the padding")

    # -------------------------------------------------------------------- choices

    def call(self, t: CallTerm, facts: Facts) -> None:
        if t.op == "ite":
            self.choice(t, facts)
        elif t.op in _INTERPRETED and _integral(t):
            self.condition(t, facts)
        else:
            for a in t.args:
                self(a, facts)

    def condition(self, t: CallTerm, facts: Facts) -> None:
        if not self.equivalent(*self.pair(t, facts), facts):
            raise Unproved(f"the condition {_short(t)} changes when {self.problem.dim!r} grows")

    def pair(self, c: Term, facts: Facts) -> tuple[Term, Term]:
        """Return a condition at n and at N."""
        here = self.abstract(c, facts)
        return here, self.problem.at(here)

    def equivalent(self, here: Term, there: Term, facts: Facts) -> bool:
        if here is there:
            return True
        holds = self.problem.holds
        return holds(there, (*facts, *parts(here))) and holds(
            negate(there), (*facts, *parts(negate(here)))
        )

    def choice(self, t: CallTerm, facts: Facts) -> None:
        """Prove ``a if c else b`` in four cases, skipping contradictory ones."""
        c, a, b = t.args
        here, there = self.pair(c, facts)
        both = (*facts, *parts(here), *parts(there))
        neither = (*facts, *parts(negate(here)), *parts(negate(there)))
        self.unless(a, both)
        self.unless(b, neither)
        if here is there:
            return
        self.mixed(a, (*facts, *parts(here)), negate(there), b, t)
        self.mixed(b, (*facts, *parts(negate(here))), there, a, t)

    def unless(self, t: Term, facts: Facts) -> None:
        """Prove a term unless its facts are contradictory."""
        try:
            self(t, facts)
        except (Unproved, Needs):
            if not (facts and self.problem.impossible(facts)):
                raise

    def mixed(self, small: Term, facts: Facts, only: Term, large: Term, t: Term) -> None:
        """Prove that the branches are equal where n and N choose differently."""
        if self.problem.holds(negate(only), facts):
            return
        facts = (*facts, *parts(only))
        there, here = Values(self, facts, {})(large), literal(small)
        if not (isinstance(here, KnownNumber) and here == there):
            raise Unproved(f"the choice {_short(t)} changes when {self.problem.dim!r} grows")

    # -------------------------------------------------------------------- loops

    def reduce(self, t: Reduce, facts: Facts) -> None:
        self(t.init, facts)
        growing = []
        for a in t.axes:
            assert a.extent is not None
            if self.grows(a.extent, facts):
                growing.append(a)
        self(t.body, facts)
        growing = [a for a in growing if not self.repeats(t, a, facts)]
        if growing and not independent(t.axes):
            raise Unproved("the extent of a loop depends on a loop that grows")
        some = conj(*(ge0(a.extent - 1) for a in t.axes if a.extent is not None))
        for a in growing:
            moved = self.behind(a, t.axes, growing)
            found = Values(self, facts, moved, self.problem.holds(some, facts))(t.body)
            if not (isinstance(found, KnownNumber) and self.nothing(t, found)):
                raise Unproved(f"the {t.op} over {_extent(a)} includes padding: {_short(t.body)}")

    def repeats(self, t: Reduce, a: Var, facts: Facts) -> bool:
        """Return whether further iterations of an axis only repeat elements of an idempotent op."""
        assert a.extent is not None
        if t.op not in _IDEMPOTENT or a in free(t.body):
            return False
        if any(x.extent is not None and a in free(x.extent) for x in t.axes):
            return False
        if not self.problem.holds(ge0(a.extent - 1), facts):
            return False
        if "float" in t.body.dtype:
            self.problem.finite = True  # max(NaN, x) is x
        return True

    def grows(self, extent: Int, facts: Facts) -> bool:
        """Return whether N has more iterations; raises `Unproved` if it may have fewer."""
        if not self.problem.depends(extent):
            return False
        if extent.reads:
            self(extent, facts)
            return False
        more = self.problem.at(extent) - extent
        if self.problem.holds(eq0(more), facts):
            return False
        if not self.problem.holds(ge0(more), facts):
            raise Unproved(f"a loop of {_short(extent)} iterations may shrink")
        return True

    def behind(self, a: Var, axes: tuple[Var, ...], growing: list[Var]) -> dict[Var, Term]:
        """Return the iterations that only N has along one axis, with all of N's along the rest."""
        out: dict[Var, Term] = {}
        for x in axes:
            assert x.extent is not None
            if x is a:
                more = self.problem.at(x.extent) - x.extent
                out[x] = x.extent + as_int(fresh(more, "more"))
            elif x in growing:
                out[x] = as_int(fresh(self.problem.at(x.extent), "all"))
        return out

    def nothing(self, t: Reduce, found: KnownNumber) -> bool:
        """Return whether combining with this value changes nothing."""
        unit = identity(t.op, t.body.dtype)
        init = literal(t.init)
        value = found.number
        if t.op in ("max", "min"):
            ends = [unit.value] if isinstance(unit, Const) else []
            ends += [-math.inf if t.op == "max" else math.inf] if isinstance(unit, Int) else []
            ends += [init.number] if isinstance(init, KnownNumber) else []
            good = any(value <= e if t.op == "max" else value >= e for e in ends)
            if good and "float" in t.body.dtype:
                self.problem.finite = True  # max(NaN, x) is x
            return good
        if isinstance(unit, Int):
            return unit.const is not None and value == unit.const
        return isinstance(unit, Const) and bool(value == unit.value)

    def fold(self, t: Fold, facts: Facts) -> None:
        for x in t.inits:
            self(x, facts)
        assert t.axis.extent is not None
        if t.axis.extent is FOREVER:
            raise Unproved("a while loop depends on a growing dimension")
        growing = self.grows(t.axis.extent, facts)
        for u in t.updates:
            self(u, facts)
        if not growing:
            return
        values = Values(self, facts, self.behind(t.axis, (t.axis,), [t.axis]))
        for s, u in zip(t.states, t.updates, strict=True):
            found = values(u)
            if not (isinstance(found, LoopState) and found.state is s):
                raise Unproved(f"the loop over {_extent(t.axis)} changes its state in the padding")


def _integral(t: CallTerm) -> bool:
    """Return whether a term is an operation on integers or on booleans."""
    inside = t.args[1:] if t.op == "ite" else t.args
    return t.dtype == "bool" or all(isinstance(a, Int) for a in inside)


def _extent(a: Var) -> str:
    return f"0 … {a.extent!r} - 1"


def _short(t: Term) -> str:
    text = repr(t)
    return text if len(text) <= 80 else text[:77] + "…"
