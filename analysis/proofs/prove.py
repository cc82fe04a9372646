"""Prove a condition over integer variables, from assumptions.

``prove(goal, assume)`` decides whether the goal holds at every point of the variables' domains
where the assumptions hold. The cheapest method comes first: normal form, implication between
conjuncts, enumeration, Z3. ``unknown`` says nothing about the goal.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..terms.condition_terms import conj, parts
from ..terms.term import FALSE, TRUE, Term
from ..terms.term.work_budget import spend
from .implication import follows_from
from .solvers.exhaustive import exhaustive
from .solvers.smt import prove_int
from .solvers.verdict import Verdict

#: Steps of a proof, in addition to those of its methods.
PROOF = 10


def prove(goal: Term, assume: Sequence[Term] = (), *, timeout_ms: int = 500) -> Verdict:
    """Return whether ``assume`` implies ``goal`` everywhere in the free variables' domains.

    ``refuted`` comes with a counterexample that was checked by evaluation.

    Args:
        goal: A boolean term.
        assume: Boolean terms.
        timeout_ms: The time limit of Z3.

    Raises:
        TypeError: A term is not boolean.
    """
    for term in (goal, *assume):
        if term.dtype != "bool":
            raise TypeError(f"prove: expected boolean terms, got {term!r} of type {term.dtype}")
    start = time.perf_counter()
    verdict = _prove(goal, assume, timeout_ms)
    return replace(verdict, ms=(time.perf_counter() - start) * 1e3)


def _prove(goal: Term, assume: Sequence[Term], timeout_ms: int) -> Verdict:
    if goal is TRUE:
        return Verdict("proved", "normal-form")
    premise = conj(*assume)
    spend(PROOF)
    if premise is FALSE or follows_from(goal, parts(premise)):
        return Verdict("proved", "implication")
    verdict = exhaustive(goal, premise)
    if verdict.status != "unknown":
        return verdict
    return prove_int(goal, premise, timeout_ms)
