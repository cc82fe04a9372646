"""Prove a condition over integer variables, from assumptions.

``prove(goal, assume)`` asks whether the goal holds at every point of the variables' domains at
which the assumptions hold. Methods are tried cheapest first: normal form, implication between
conjuncts, enumeration, Z3. ``unknown`` says nothing about the goal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from .evaluate import Unevaluable, evaluate
from .interval import fits
from .order import nonneg
from .rewrite import free, tensors
from .scalar import conj, disj, ge0, negate, parts
from .term import FALSE, TRUE, Call, Int, Term, Var, as_int

Status = Literal["proved", "refuted", "unknown"]
POINTS = 1 << 14


@dataclass(frozen=True)
class Verdict:
    """The answer to one goal: who gave it, in how many milliseconds, and why if it is not proved.

    A verdict has no truth value: ask for ``.proved`` or ``.refuted``.
    """

    status: Status
    engine: str
    ms: float = 0.0
    counterexample: Mapping[Var, int] | None = None
    reason: str = ""

    @property
    def proved(self) -> bool:
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        return self.status == "refuted"

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a bool: ask for .proved or .refuted")


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
    if given is FALSE or implied(goal, parts(given)):
        return Verdict("proved", "implication")
    found = exhaustive(goal, given)
    if found.status != "unknown":
        return found
    from .smt import prove_int

    return prove_int(goal, given, timeout_ms)


# ---------------------------------------------------------------------------- implication


def implied(goal: Term, facts: Iterable[Term]) -> bool:
    """Whether the goal follows from single facts without search."""
    facts = tuple(facts)
    if goal is TRUE or goal in facts:
        return True
    if not isinstance(goal, Call):
        return False
    if goal.op == "and":
        return all(implied(g, facts) for g in goal.args)
    if goal.op == "or":
        return any(implied(g, facts) for g in goal.args)
    if goal.op == "ge0":
        p = as_int(goal.args[0])
        return any(nonneg(p - q) for f in facts for q in _nonnegatives(f))
    if goal.op == "eq0":
        p = as_int(goal.args[0])
        return implied(ge0(p), facts) and implied(ge0(-p), facts)
    if goal.op == "not" and isinstance(goal.args[0], Call) and goal.args[0].op == "eq0":
        p = as_int(goal.args[0].args[0])
        return implied(ge0(p - 1), facts) or implied(ge0(-p - 1), facts)
    return False


def _nonnegatives(fact: Term) -> tuple[Int, ...]:
    if isinstance(fact, Call) and fact.op == "ge0":
        return (as_int(fact.args[0]),)
    if isinstance(fact, Call) and fact.op == "eq0":
        p = as_int(fact.args[0])
        return p, -p
    return ()


# ---------------------------------------------------------------------------- enumeration


def domain(variables: Iterable[Var]) -> dict[Var, int] | None:
    """The literal extent of each variable, or None where one has none."""
    out = {}
    for v in sorted(variables, key=lambda v: v.uid):
        k = None if v.extent is None else v.extent.const
        if k is None:
            return None
        out[v] = k
    return out


def grid(extents: Mapping[Var, int]) -> dict[Var, np.ndarray]:
    """Every point of a box, as one open grid: axis ``k`` of the arrays is the k-th variable."""
    n = len(extents)
    return {
        v: np.arange(e, dtype=np.int64).reshape(-1, *[1] * (n - 1 - k))
        for k, (v, e) in enumerate(extents.items())
    }


def exhaustive(goal: Term, given: Term = TRUE, *, limit: int = POINTS) -> Verdict:
    """Evaluate ``given -> goal`` at every point of a literal domain of at most ``limit`` points."""
    claim = disj(negate(given), goal)
    extents = domain(free(goal) | free(given))
    if extents is None or tensors(goal) or tensors(given):
        return Verdict("unknown", "enumeration", reason="the domain is not literal")
    if math.prod(extents.values()) > limit:
        return Verdict("unknown", "enumeration", reason=f"more than {limit} points")
    if not (fits(goal) and fits(given)):
        return Verdict("unknown", "enumeration", reason="values may exceed 64 bits")
    try:
        holds = np.broadcast_to(evaluate(claim, grid(extents)), tuple(extents.values()))
    except Unevaluable as e:
        return Verdict("unknown", "enumeration", reason=str(e))
    if holds.all():
        return Verdict("proved", "enumeration")
    point = np.unravel_index(int(np.argmin(holds)), holds.shape)
    found = {v: int(x) for v, x in zip(extents, point, strict=True)}
    return Verdict("refuted", "enumeration", counterexample=MappingProxyType(found))


def is_counterexample(goal: Term, given: Term, point: Mapping[Var, int]) -> bool:
    """Whether the point lies in the domain, satisfies ``given`` and not ``goal``."""
    try:
        for v in point:
            if v.kind == "size" and point[v] < 1:
                return False
            if v.extent is not None and not 0 <= point[v] < int(evaluate(v.extent, point)):
                return False
        return bool(evaluate(given, point)) and not bool(evaluate(goal, point))
    except (Unevaluable, OverflowError):
        return False


__all__ = ["Verdict", "exhaustive", "implied", "prove"]
