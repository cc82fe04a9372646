"""Prove that two terms are equal wherever some facts hold.

Terms are compared top down. Integers and conditions go to the provers; selections are split into
cases; `equal_reductions` compares reductions. What an equality needs beyond bit-equality is
recorded, see `Proof`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations

from ..solving.coordinate_remainders import as_digits
from ..terms.condition_terms import conj, disj, eq0, negate, parts
from ..terms.show import reason
from ..terms.term import (
    FALSE,
    TRUE,
    CallTerm,
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
from ..terms.term.literals import is_const
from ..terms.traversal import replace, substitute
from .context import simplify, thorough
from .elements.all_values import equal_at_all_values
from .elements.bit_vectors import has_bit_operations, proved_by_bits
from .equal_reductions import Facts, prove_reductions
from .folds.first_element import from_below
from .folds.fold_facts import earlier_indices, in_order
from .pairing import (
    Different,
    clamp,
    first_success,
    flatten,
    head,
    is_choice,
    is_integral,
    nearly_equal,
    pairings,
    same_number,
    without_zeros,
)
from .proof import Obligation, Proof
from .prove import prove

ASSOCIATIVE = frozenset({"add", "mul", "min", "max"})


def prove_equal(a: Term, b: Term, facts: Facts = ()) -> Proof:
    """Return the proof; raise `Different` with the place where it fails."""
    proof = Proof()
    _Prover(proof).equal(a, b, facts)
    return proof


class _Prover:
    """Compares terms top down, and notes in a proof what the equality rests on."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.failed: dict[tuple[Term, Term, Facts], str] = {}

    def equal(self, a: Term, b: Term, facts: Facts) -> None:
        """Compare a pair; a refusal is cached, because pairings of operands repeat pairs."""
        if a is b:
            return
        failure = self.failed.get((a, b, facts))
        if failure is not None:
            raise Different(failure)
        try:
            self.compare(a, b, facts)
        except Different as error:
            if equal_at_all_values(a, b):
                goal = f"{reason(a)} == {reason(b)}"
                self.proof.obligations.append(Obligation(goal, "all values", 0.0))
                return
            self.failed[a, b, facts] = str(error)
            raise

    def compare(self, a: Term, b: Term, facts: Facts) -> None:
        """Compare a pair by the kind of its terms."""
        if isinstance(a, Int) or isinstance(b, Int):
            if not (is_integral(a) and is_integral(b)):
                raise Different(f"types {a.dtype} and {b.dtype}")
            self.integers(as_int(a), as_int(b), facts)
        elif a.dtype != b.dtype:
            raise Different(f"types {a.dtype} and {b.dtype}")
        elif a.dtype == "bool":
            self.conditions(a, b, facts)
        elif is_choice(a) or is_choice(b):
            self.cases(a, b, facts)
        elif isinstance(a, Load) and isinstance(b, Load):
            self.loads(a, b, facts)
        elif isinstance(a, Reduce) and isinstance(b, Reduce):
            prove_reductions(self, a, b, facts)
        elif isinstance(a, Fold) and isinstance(b, Fold):
            self.folds(a, b, facts)
        elif isinstance(a, CallTerm) and isinstance(b, CallTerm) and a.op == b.op:
            self.calls(a, b, facts)
        elif (clamp_a := clamp(a)) and (clamp_b := clamp(b)) and clamp_a[1:] == clamp_b[1:]:
            self.proof.ordered = True
            self.equal(clamp_a[0], clamp_b[0], facts)
        elif (shorter := without_zeros(a)) is not a or without_zeros(b) is not b:
            self.proof.reassociated = True
            self.equal(shorter, without_zeros(b), facts)
        elif not (same_number(a, b) or (self.proof.rounded and nearly_equal(a, b))):
            raise Different(f"{head(a)} and {head(b)}")

    def holds(self, goal: Term, facts: Facts) -> bool:
        """Whether a goal is proved; the proof then rests on it."""
        if goal is TRUE:
            return True
        if goal is FALSE and not facts:
            return False
        verdict = prove(goal, facts)
        if verdict.proved:
            self.proof.obligations.append(Obligation(repr(goal), verdict.engine, verdict.ms))
        return verdict.proved

    def integers(self, a: Int, b: Int, facts: Facts) -> None:
        """Compare atoms of one kind, else prove it, else compare the two terms that differ."""
        x, y = a.atom, b.atom
        if x is not None and y is not None and not isinstance(x, Var) and not isinstance(y, Var):
            if isinstance(x, (Reduce, Fold, Load)) and type(x) is type(y):
                return self.equal(x, y, facts)
            if is_choice(x) or is_choice(y):
                return None if self.by_bits(a, b) else self.cases(x, y, facts)
        if self.holds(eq0(a - b), facts):
            return None
        positive = [(m, c) for m, c in (a - b).terms if c > 0]
        right = [(m, -c) for m, c in (a - b).terms if c < 0]
        if len(positive) == len(right) == 1 and positive[0][1] == right[0][1]:
            left_mono, right_mono = positive[0][0], right[0][0]
            if (
                len(left_mono) == len(right_mono) == 1
                and not isinstance(left_mono[0], Var)
                and not isinstance(right_mono[0], Var)
            ):
                return self.equal(left_mono[0], right_mono[0], facts)
        if self.by_bits(a, b):
            return None
        raise Different(f"integers {reason(a)} and {reason(b)}")

    def by_bits(self, a: Int, b: Int) -> bool:
        """Prove two integers equal of which one combines numbers by bits."""
        if not (has_bit_operations(a) or has_bit_operations(b)) or not proved_by_bits(a, b):
            return False
        self.proof.obligations.append(Obligation(f"{reason(a)} == {reason(b)}", "z3-bv", 0.0))
        return True

    def conditions(self, a: Term, b: Term, facts: Facts) -> None:
        """Compare as an equivalence, else operand by operand."""
        equivalence = conj(_implies(a, b), _implies(b, a))
        if self.holds(equivalence, facts):
            return
        if isinstance(a, CallTerm) and isinstance(b, CallTerm) and a.op == b.op:
            if a.op not in ("ge0", "eq0"):
                return self.calls(a, b, facts)
        if isinstance(a, Load) and isinstance(b, Load):
            return self.loads(a, b, facts)
        raise Different(f"conditions {reason(a)} and {reason(b)}")

    def cases(self, a: Term, b: Term, facts: Facts) -> None:
        """Compare once for each branch of a selection that can be taken."""
        first = a if is_choice(a) else b
        assert isinstance(first, CallTerm)
        condition, *branches = first.args
        for case, branch in zip((condition, negate(condition)), branches, strict=True):
            in_case = (*facts, *parts(case))
            if case is FALSE or prove(FALSE, in_case).proved:
                continue
            x, y = (branch if t is first else t for t in (a, b))
            digits = as_digits(condition, holds=case is condition)
            if digits is not None:
                x, y = substitute(x, digits), substitute(y, digits)
                in_case = tuple(substitute(f, digits) for f in in_case)
            self.equal(simplify(x, in_case, thorough), simplify(y, in_case, thorough), in_case)

    def loads(self, a: Load, b: Load, facts: Facts) -> None:
        """Compare elements of one tensor by their indices."""
        if a.tensor is not b.tensor:
            raise Different(f"{a.tensor.name} and {b.tensor.name}")
        goal = conj(*(eq0(i - j) for i, j in zip(a.indices, b.indices, strict=True)))
        if not self.holds(goal, facts):
            for index_a, index_b in zip(a.indices, b.indices, strict=True):
                self.integers(index_a, index_b, facts)

    def calls(self, a: CallTerm, b: CallTerm, facts: Facts) -> None:
        """Compare operations: operands in order, or in any order if they commute."""
        if a.op in ("min", "max") and "float" in a.dtype:
            return self.extremes(a, b, facts)
        if a.op in ASSOCIATIVE:
            return self.regrouped(a, b, facts)
        if len(a.args) != len(b.args):
            raise Different(f"{a.op} of {len(a.args)} and of {len(b.args)}")
        for x, y in zip(a.args, b.args, strict=True):
            self.equal(x, y, facts)
        return None

    def extremes(self, a: CallTerm, b: CallTerm, facts: Facts) -> None:
        """Compare in the given order, or else in another, which matters to NaN and signed zeros."""
        try:
            for x, y in zip(a.args, b.args, strict=True):
                self.equal(x, y, facts)
        except Different:
            self.regrouped(a, b, facts)
            self.proof.ordered = True

    def regrouped(self, a: CallTerm, b: CallTerm, facts: Facts) -> None:
        xs, ys = flatten(a.op, a), flatten(b.op, b)
        if a.op == "add" and len(xs) != len(ys):
            xs, ys = ([x for x in side if not is_const(x, 0)] for side in (xs, ys))
            self.proof.reassociated = True
        operands = len(xs)
        for term in list(xs):
            if term in ys:
                xs.remove(term)
                ys.remove(term)
        attempts = (partial(self.all_equal, pairs, facts) for pairs in pairings(xs, ys))
        first_success(attempts, "operands differ")
        if operands > 2 and a.op in ("add", "mul"):
            self.proof.reassociated = True

    def all_equal(self, pairs: Sequence[tuple[Term, Term]], facts: Facts) -> None:
        """Compare several pairs."""
        for x, y in pairs:
            self.equal(x, y, facts)

    # ------------------------------------------------------------------ folds

    def folds(self, a: Fold, b: Fold, facts: Facts) -> None:
        """Compare folds: some pairing of the states must make starts and steps equal."""
        assert a.axis.extent is not None and b.axis.extent is not None
        if len(a.states) != len(b.states):
            raise Different(f"folds of {len(a.states)} and {len(b.states)} values")
        orders = [(0, *order) for order in permutations(range(1, len(b.states)))]
        for order in orders:
            longer = from_below(a, b, order)
            if longer is not None:
                self.proof.above = True
                return self.steps(longer, b, order, facts)
        self.equal(a.axis.extent, b.axis.extent, facts)
        attempts = (partial(self.steps, a, b, order, facts) for order in orders)
        return first_success(attempts, "folds differ")

    def steps(self, a: Fold, b: Fold, order: tuple[int, ...], facts: Facts) -> None:
        """Compare starts and updates of folds, with the states of both as the same unknowns."""
        assert a.axis.extent is not None
        axis = as_int(fresh(a.axis.extent, "q"))
        states = [raw_call(f"{s.op} {axis!r}", (), s.dtype) for s in a.states]
        ours, theirs = dict(zip(a.states, states, strict=True)), {}
        for k, call in zip(order, states, strict=True):
            if b.states[k].dtype != call.dtype:
                raise Different(f"types {b.states[k].dtype} and {call.dtype}")
            theirs[b.states[k]] = call
        for n, k in enumerate(order):
            self.equal(a.inits[n], b.inits[k], facts)
        invariants = tuple(earlier_indices(a, axis, states))
        for n, k in enumerate(order):
            pair = (
                replace(substitute(a.updates[n], {a.axis: axis}), ours),
                replace(substitute(b.updates[k], {b.axis: axis}), theirs),
            )
            if pair[0] is not pair[1]:
                rewritten = in_order(pair[0], invariants), in_order(pair[1], invariants)
                self.proof.ordered |= rewritten != pair
                pair = rewritten
            self.equal(*pair, facts)


def _implies(a: Term, b: Term) -> Term:
    return disj(negate(a), b)
