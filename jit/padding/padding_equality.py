"""Prove that a term has the same value at n and, over padded inputs, at N.

The proof is a recursion over the term under facts about its variables. Loads must read the same
valid element. Integers must be equal. Conditions must be equal, or the branches equal where they
are not. Reductions must run over the same iterations, or additional ones contribute nothing.

``smaller`` and ``bigger`` are a term at n and at N.
"""

from __future__ import annotations

from ...analysis.terms.condition_terms import conj, eq0, ge0, negate, parts
from ...analysis.terms.term import (
    FOREVER,
    INT_DTYPES,
    CallTerm,
    Fold,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    as_int,
    raw_call,
)
from ...analysis.terms.traversal import rebuild
from .extra_iterations import extra_iterations, is_neutral, repeats
from .iteration_terms import independent, literal
from .padded_iterations import Values
from .padding_problem import Facts, PaddingProblem, UnknownContent, UnprovedPadding
from .padding_value import KnownNumber, LoopState

#: Operations on integers and booleans that the provers interpret.
_INTERPRETED = frozenset({"ge0", "eq0", "and", "or", "not", "ite", "min", "max", "floordiv"})


class PaddingEquality:
    """Proves equality of terms for one problem; raises `UnprovedPadding`."""

    def __init__(self, problem: PaddingProblem) -> None:
        self.problem = problem
        self.proved: set[tuple[Term, Facts]] = set()

    def __call__(self, term: Term, facts: Facts) -> None:
        """Prove that a term is the same at n and N under the facts."""
        if not self.problem.depends(term) or (term, facts) in self.proved:
            return
        if isinstance(term, Int):
            self.integer(term, facts)
        elif isinstance(term, Load):
            self.load(term, facts)
        elif isinstance(term, Reduce):
            self.reduce(term, facts)
        elif isinstance(term, Fold):
            self.fold(term, facts)
        elif isinstance(term, CallTerm):
            self.call(term, facts)
        elif isinstance(term, Var):
            raise UnprovedPadding(f"{term!r} is used as a value")
        self.proved.add((term, facts))

    def proves(self, term: Term, facts: Facts) -> bool:
        """Return whether the proof for a term succeeds."""
        try:
            self(term, facts)
        except UnprovedPadding:
            return False
        return True

    # -------------------------------------------------------------------- integers

    def abstract(self, term: Term, facts: Facts) -> Term:
        """Replace subterms that the provers cannot interpret by opaque names.

        Each of these subterms must itself be the same at n and N.
        """
        if isinstance(term, (Int, Var)):
            return (
                rebuild(term, lambda term: self.abstract(term, facts))
                if isinstance(term, Int)
                else term
            )
        if not self.problem.depends(term) and not term.reads:
            return term
        if isinstance(term, CallTerm) and term.op in _INTERPRETED and _integral(term):
            return rebuild(term, lambda term: self.abstract(term, facts))
        self(term, facts)
        name = raw_call(f"same {term.uid}", (), term.dtype)
        return as_int(name) if term.dtype in INT_DTYPES else name

    def integer(self, poly: Int, facts: Facts) -> None:
        if isinstance(poly.atom, CallTerm) and poly.atom.op == "ite" and poly.reads:
            self.choice(poly.atom, facts)
            return
        abstracted = as_int(self.abstract(poly, facts))
        bigger = self.problem.at(abstracted)
        if bigger is abstracted or self.problem.holds(eq0(abstracted - bigger), facts):
            return
        raise UnprovedPadding(f"{_short(poly)} changes when {self.problem.dim!r} grows")

    def load(self, load: Load, facts: Facts) -> None:
        for d, poly in enumerate(load.indices):
            try:
                self(poly, facts)
            except UnprovedPadding as error:
                raise UnprovedPadding(f"axis {d} of the read {_short(load)}: {error}") from None
        for d in self.problem.grown.get(load.tensor, ()):
            poly = load.indices[d]
            if poly.reads:
                continue  # a read that is executed at n stays inside the buffer there
            poly = as_int(self.abstract(poly, facts))
            inside = conj(ge0(poly), ge0(load.tensor.shape[d] - 1 - poly))
            if not self.problem.holds(inside, facts):
                raise UnprovedPadding(f"axis {d} of the read {_short(load)} may be in the padding")

    # -------------------------------------------------------------------- choices

    def call(self, call: CallTerm, facts: Facts) -> None:
        if call.op == "ite":
            self.choice(call, facts)
        elif call.op in _INTERPRETED and _integral(call):
            self.condition(call, facts)
        else:
            for term in call.args:
                self(term, facts)

    def condition(self, call: CallTerm, facts: Facts) -> None:
        if not self.equivalent(*self.pair(call, facts), facts):
            raise UnprovedPadding(
                f"the condition {_short(call)} changes when {self.problem.dim!r} grows"
            )

    def pair(self, term: Term, facts: Facts) -> tuple[Term, Term]:
        """Return a condition at n and at N."""
        smaller = self.abstract(term, facts)
        return smaller, self.problem.at(smaller)

    def equivalent(self, smaller: Term, bigger: Term, facts: Facts) -> bool:
        if smaller is bigger:
            return True
        holds = self.problem.holds
        return holds(bigger, (*facts, *parts(smaller))) and holds(
            negate(bigger), (*facts, *parts(negate(smaller)))
        )

    def choice(self, call: CallTerm, facts: Facts) -> None:
        """Prove ``a if condition else b`` in four cases, skipping contradictory ones."""
        condition, a, b = call.args
        smaller, bigger = self.pair(condition, facts)
        both = (*facts, *parts(smaller), *parts(bigger))
        neither = (*facts, *parts(negate(smaller)), *parts(negate(bigger)))
        self.unless(a, both)
        self.unless(b, neither)
        if smaller is bigger:
            return
        self.mixed(a, (*facts, *parts(smaller)), negate(bigger), b, call)
        self.mixed(b, (*facts, *parts(negate(smaller))), bigger, a, call)

    def unless(self, term: Term, facts: Facts) -> None:
        """Prove a term unless its facts are contradictory."""
        try:
            self(term, facts)
        except (UnprovedPadding, UnknownContent):
            if not (facts and self.problem.impossible(facts)):
                raise

    def mixed(self, smaller: Term, facts: Facts, only: Term, bigger: Term, term: Term) -> None:
        """Prove that the branches are equal where n and N choose differently."""
        if self.problem.holds(negate(only), facts):
            return
        facts = (*facts, *parts(only))
        bigger_value, smaller_value = Values(self, facts, {})(bigger), literal(smaller)
        if not (isinstance(smaller_value, KnownNumber) and smaller_value == bigger_value):
            raise UnprovedPadding(
                f"the choice {_short(term)} changes when {self.problem.dim!r} grows"
            )

    # -------------------------------------------------------------------- loops

    def reduce(self, reduction: Reduce, facts: Facts) -> None:
        self(reduction.init, facts)
        growing = []
        for var in reduction.axes:
            assert var.extent is not None
            if self.grows(var.extent, facts):
                growing.append(var)
        self(reduction.body, facts)
        growing = [a for a in growing if not repeats(self.problem, reduction, a, facts)]
        if growing and not independent(reduction.axes):
            raise UnprovedPadding("the extent of a loop depends on a loop that grows")
        some = conj(*(ge0(a.extent - 1) for a in reduction.axes if a.extent is not None))
        for var in growing:
            moved = extra_iterations(self.problem, var, reduction.axes, growing)
            value = Values(self, facts, moved, self.problem.holds(some, facts))(reduction.body)
            if not (isinstance(value, KnownNumber) and is_neutral(self.problem, reduction, value)):
                body = _short(reduction.body)
                raise UnprovedPadding(
                    f"the {reduction.op} over {_extent(var)} includes padding: {body}"
                )

    def grows(self, extent: Int, facts: Facts) -> bool:
        """Return whether N has more iterations; raises `UnprovedPadding` if it may have fewer."""
        if not self.problem.depends(extent):
            return False
        if extent.reads:
            self(extent, facts)
            return False
        more = self.problem.at(extent) - extent
        if self.problem.holds(eq0(more), facts):
            return False
        if not self.problem.holds(ge0(more), facts):
            raise UnprovedPadding(f"a loop of {_short(extent)} iterations may shrink")
        return True

    def fold(self, fold: Fold, facts: Facts) -> None:
        for init in fold.inits:
            self(init, facts)
        assert fold.axis.extent is not None
        if fold.axis.extent is FOREVER:
            raise UnprovedPadding("a while loop depends on a growing dimension")
        growing = self.grows(fold.axis.extent, facts)
        for update in fold.updates:
            self(update, facts)
        if not growing:
            return
        values = Values(
            self, facts, extra_iterations(self.problem, fold.axis, (fold.axis,), [fold.axis])
        )
        for state, update in zip(fold.states, fold.updates, strict=True):
            value = values(update)
            if not (isinstance(value, LoopState) and value.state is state):
                raise UnprovedPadding(
                    f"the loop over {_extent(fold.axis)} changes its state in the padding"
                )


def _integral(call: CallTerm) -> bool:
    """Return whether a term is an operation on integers or on booleans."""
    inside = call.args[1:] if call.op == "ite" else call.args
    return call.dtype == "bool" or all(isinstance(a, Int) for a in inside)


def _extent(var: Var) -> str:
    return f"0 … {var.extent!r} - 1"


def _short(term: Term) -> str:
    text = repr(term)
    return text if len(text) <= 80 else text[:77] + "…"
