"""Prove that two reductions are equal.

They are if a bijection between their axes maps one guarded domain onto the other and the bodies
onto each other. It is derived from the equations between the accesses of the bodies.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ..terms.condition_terms import eq0, ge0, parts
from ..terms.order import nonneg
from ..terms.show import reason
from ..terms.term import CallTerm, Const, Int, Reduce, Term, Var, as_int
from ..terms.traversal import ints, substitute
from .context import simplify, thorough
from .pairing import Different, accesses, bijection, first_success, pairings
from .proof import Proof
from .reduction_domain import OpenReduction, open_reduction

Facts = tuple[Term, ...]


class Prover(Protocol):
    """Compares the parts of reductions, and notes in a proof what the equality rests on."""

    proof: Proof

    def equal(self, a: Term, b: Term, facts: Facts) -> None:
        """Compare a pair; raises `Different`."""

    def holds(self, goal: Term, facts: Facts) -> bool:
        """Return whether a goal is proved."""


def prove_reductions(prover: Prover, a: Reduce, b: Reduce, facts: Facts) -> None:
    """Compare reductions under some pairing of their factors."""
    if a.op != b.op:
        raise Different(f"reductions {a.op} and {b.op}")
    if a.init is not b.init and starts_below(a) and starts_below(b):
        prover.proof.ordered = True
    else:
        prover.equal(a.init, b.init, facts)
    first, second = open_reduction(a, prover.proof), open_reduction(b, prover.proof)
    if a.op in ("add", "mul") and a.dtype != "int":
        prover.proof.reassociated = True
    attempts = (
        partial(_matched, prover, first, second, pairs, facts)
        for pairs in pairings(first.factors, second.factors)
    )
    first_success(attempts, "reductions differ")


def starts_below(reduction: Reduce) -> bool:
    """Return whether a maximum of magnitudes starts at a number that is not above 0."""
    init, body = reduction.init, reduction.body
    if reduction.op != "max" or not (isinstance(body, CallTerm) and body.op == "abs"):
        return False
    if not isinstance(init, Const) or not isinstance(init.value, float) or init.value > 0:
        return False
    return all(a.extent is not None and nonneg(a.extent - 1) for a in reduction.axes)


def _matched(
    prover: Prover,
    first: OpenReduction,
    second: OpenReduction,
    pairs: list[tuple[Term, Term]],
    facts: Facts,
) -> None:
    """Compare factors in pairs, under the bijection of the axes that their accesses imply."""
    equations = [e for x, y in pairs for e in accesses(x, y)]
    forth = bijection(second.axes, [(j, i) for i, j in equations], first.axes)
    back = bijection(first.axes, equations, second.axes)
    if forth is None or back is None:
        raise Different("the axes of two reductions do not correspond")
    _onto(prover, first, second, forth, back, facts)
    _onto(prover, second, first, back, forth, facts)
    guard_facts = (*facts, *parts(first.guard))
    for x, y in pairs:
        prover.equal(x, simplify(substitute(y, forth), guard_facts, thorough), guard_facts)


def _onto(
    prover: Prover,
    first: OpenReduction,
    second: OpenReduction,
    forth: dict[Var, Int],
    back: dict[Var, Int],
    facts: Facts,
) -> None:
    """Prove that ``forth`` maps one guarded domain into the other, and ``back`` inverts it."""
    goals = [substitute(second.guard, forth)]
    for var in second.axes:
        assert var.extent is not None
        goals += [ge0(forth[var]), ge0(var.extent - 1 - forth[var])]
    goals += [eq0(ints(back[v], forth) - as_int(v)) for v in first.axes]
    guard_facts = (*facts, *parts(first.guard))
    for goal in goals:
        if not prover.holds(goal, guard_facts):
            raise Different(f"reductions may differ in domain: cannot prove {reason(goal)}")
