"""Prove a condition over integer variables, from assumptions.

``prove(goal, assume)`` asks whether the goal holds at every point of the variables' domains at
which the assumptions hold. Methods are tried cheapest first: normal form, implication between
conjuncts, enumeration, Z3. ``unknown`` says nothing about the goal.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..terms.scalar import conj, parts
from ..terms.term import FALSE, TRUE, Term
from ..terms.work import spend
from .exhaustive import exhaustive
from .implication import implied
from .smt import prove_int
from .verdict import Verdict

#: Steps of a proof, beside those of its methods.
PROOF = 10


def prove(goal: Term, assume: Sequence[Term] = (), *, timeout_ms: int = 500) -> Verdict:
    """Whether ``assume`` implies ``goal`` at every point of the free variables' domains.

    Goal and assumptions are boolean terms. ``refuted`` comes with a point that was evaluated and
    found to be a counterexample. Raises ``TypeError`` for a goal that is not boolean.
    """
    for t in (goal, *assume):
        if t.dtype != "bool":
            raise TypeError(f"prove: expected boolean terms, got {t!r} of type {t.dtype}")
    start = time.perf_counter()
    verdict = _prove(goal, assume, timeout_ms)
    return replace(verdict, ms=(time.perf_counter() - start) * 1e3)


def _prove(goal: Term, assume: Sequence[Term], timeout_ms: int) -> Verdict:
    if goal is TRUE:
        return Verdict("proved", "normal-form")
    given = conj(*assume)
    spend(PROOF)
    if given is FALSE or implied(goal, parts(given)):
        return Verdict("proved", "implication")
    found = exhaustive(goal, given)
    if found.status != "unknown":
        return found
    return prove_int(goal, given, timeout_ms)
