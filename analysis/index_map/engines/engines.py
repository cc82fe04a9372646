"""Proof engines with one interface: from a goal and a time limit to a verdict.

``normal-form`` simplifies, ``numpy`` enumerates, ``z3-bv`` handles literal domains of any size,
``z3-int`` and ``tvm`` symbolic ones. An engine that does not apply answers ``unknown``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...proofs.implication import follows_from
from ...proofs.solvers.exhaustive import domain, grid
from ...proofs.solvers.verdict import Verdict
from ...support.tvm_compat import sym
from ...terms.condition_terms import disj, negate, parts
from ...terms.evaluate import Unevaluable, evaluate
from ...terms.term import CallTerm, Term, Var, as_int
from ..maps.bounds import certainly_nonneg
from ..maps.from_terms import to_tvm
from ..maps.to_terms import Unsupported
from .goal import Goal
from .z3_engines import reach_of, z3_bv, z3_int

POINTS = 1 << 20


@dataclass(frozen=True)
class EngineAnswer:
    """The statement of a goal, the verdict, the engine and its milliseconds."""

    name: str
    statement: str
    verdict: str
    engine: str
    ms: float
    reason: str = ""

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return (
            f"{self.name}: {self.statement} {self.verdict} by {self.engine}, {self.ms:.2f} ms{why}"
        )


def discharge(goal: Goal, engines: Iterable[str], timeout_ms: int) -> tuple[EngineAnswer, Verdict]:
    """Return the first answer that is not ``unknown``, else the last ``unknown``."""
    start = time.perf_counter()
    verdict = Verdict("unknown", "none", reason="no engine applies")
    for name in engines:
        verdict = ENGINES[name](goal, timeout_ms)
        if verdict.status != "unknown":
            break
    ms = (time.perf_counter() - start) * 1e3
    answer = EngineAnswer(
        goal.name, goal.statement, verdict.status, verdict.engine, ms, verdict.reason
    )
    return answer, replace(verdict, ms=ms)


def normal_form(goal: Goal, timeout_ms: int) -> Verdict:
    """Prove a goal whose claims simplify to true, or follow from bounds; else unknown."""
    claim, premise = goal.closed()
    facts = parts(premise)
    if all(follows_from(c, facts) or _bounded(c) for c in parts(claim)):
        return Verdict("proved", "normal-form")
    return Verdict("unknown", "normal-form", reason="does not simplify to true")


def _bounded(term: Term) -> bool:
    return (
        isinstance(term, CallTerm) and term.op == "ge0" and certainly_nonneg(as_int(term.args[0]))
    )


def numpy(goal: Goal, timeout_ms: int) -> Verdict:
    """Evaluate at every point of a literal domain of at most 2^20 points."""
    extents = domain(goal.variables)
    if extents is None or math.prod(extents.values()) > POINTS:
        return Verdict("unknown", "numpy", reason=f"not a literal domain of <= {POINTS} points")
    reach = reach_of(goal)
    if reach is None or reach >= 1 << 62:
        return Verdict("unknown", "numpy", reason="values may exceed 64 bits")
    env: dict[Var, Any] = dict(grid(extents))
    try:
        for var, poly in goal.lets:
            env[var] = evaluate(poly, env)
        holds = evaluate(disj(negate(goal.premise), goal.claim), env)
    except Unevaluable as error:
        return Verdict("unknown", "numpy", reason=str(error))
    holds = np.broadcast_to(holds, tuple(extents.values()))
    if holds.all():
        return Verdict("proved", "numpy")
    point = np.unravel_index(int(np.argmin(holds)), holds.shape)
    counterexample = {v: int(x) for v, x in zip(extents, point, strict=True)}
    return Verdict("refuted", "numpy", counterexample=MappingProxyType(counterexample))


def tvm_analyzer(goal: Goal, timeout_ms: int) -> Verdict:
    """Use TVM's analyzer, for goals without casts, which it treats as the identity."""
    import tvm

    leaves = {v: tvm.tirx.Var(f"{v.name}_{k}", "int64") for k, v in enumerate(goal.variables)}
    try:
        inner: dict[Var, Any] = dict(leaves)
        for var, poly in goal.lets:
            inner[var] = to_tvm(poly, leaves)
        claims = [to_tvm(c, inner) for c in parts(goal.claim)]
        premise = to_tvm(goal.premise, inner)
        analyzer = sym.Analyzer()
        for var in reversed(goal.variables):
            _bind(analyzer, var, leaves)
    except Unsupported as error:
        return Verdict("unknown", "tvm", reason=str(error))
    with analyzer.constraint_scope(premise):
        if all(analyzer.can_prove(c) for c in claims):
            return Verdict("proved", "tvm")
    return Verdict("unknown", "tvm", reason="not proved")


def _bind(analyzer: Any, var: Var, leaves: Mapping[Var, Any]) -> None:
    import tvm

    if var.kind == "size":
        top = tvm.tirx.max_value("int64")
        analyzer.bind(leaves[var], tvm.ir.Range(1, top))
    elif var.extent is not None:
        analyzer.bind(leaves[var], tvm.ir.Range(0, to_tvm(var.extent, leaves)))


ENGINES: dict[str, Callable[[Goal, int], Verdict]] = {
    "normal-form": normal_form,
    "numpy": numpy,
    "z3-bv": z3_bv,
    "z3-int": z3_int,
    "tvm": tvm_analyzer,
}
"""All engines by name."""
LITERAL = ("normal-form", "numpy", "z3-bv")
SYMBOLIC = ("normal-form", "z3-int", "tvm")
