"""The engines that use Z3; they check a refutation by evaluation before they report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...proofs.solvers.exhaustive import domain, is_counterexample
from ...proofs.solvers.smt import Formulas, limit
from ...proofs.solvers.verdict import Verdict
from ...terms.interval import Sized, sized
from ...terms.term import Var
from ..maps.to_terms import Unsupported
from .bitvector import Bits
from .goal import Goal


def reach_of(goal: Goal) -> int | None:
    """Return the largest magnitude of any intermediate value, or None if unknown."""
    bound: dict[Var, Sized] = {}
    top = 1
    for var, poly in goal.lets:
        size_of_term = sized(poly)
        if size_of_term is None:
            return None
        bound[var] = size_of_term
        top = max(top, size_of_term[2])
    for condition in (goal.claim, goal.premise):
        size_of_term = sized(condition, bound)
        if size_of_term is None:
            return None
        top = max(top, size_of_term[2])
    return top


def z3_bv(goal: Goal, timeout_ms: int) -> Verdict:
    """Use bit-vectors of the least sufficient width, for literal domains."""
    import z3

    extents = domain(goal.variables)
    reach = None if extents is None else reach_of(goal)
    if extents is None or reach is None:
        return Verdict("unknown", "z3-bv", reason="not a literal domain")
    bits = Bits(reach.bit_length() + 2)
    solver = z3.SolverFor("QF_BV", ctx=bits.ctx)
    limit(solver, timeout_ms)
    try:
        for var, k in extents.items():
            solver.add(bits(var) >= bits.literal(0), bits(var) < bits.literal(k))
        for var, poly in goal.lets:
            solver.add(bits(var) == bits(poly))
        solver.add(bits(goal.premise), z3.Not(bits(goal.claim)))
    except Unsupported as error:
        return Verdict("unknown", "z3-bv", reason=str(error))
    return _answer(goal, solver, extents, bits.variables, "z3-bv")


def z3_int(goal: Goal, timeout_ms: int) -> Verdict:
    """Use mathematical integers with explicit quotients and remainders."""
    import z3

    model = Formulas()
    solver = z3.Solver(ctx=model.ctx)
    limit(solver, timeout_ms)
    for var in goal.variables:
        model.domain(var)
    try:
        lets = [model(v) == model(t) for v, t in goal.lets]
        premise, claim = model(goal.premise), model(goal.claim)
    except z3.Z3Exception as error:
        return Verdict("unknown", "z3-int", reason=str(error))
    solver.add(*model.side, *lets, premise, z3.Not(claim))
    if model.opaque and solver.check() != z3.unsat:
        return Verdict("unknown", "z3-int", reason="has operations that are not arithmetic")
    return _answer(goal, solver, goal.variables, model.variables, "z3-int")


def _answer(
    goal: Goal, solver: Any, variables: Iterable[Var], encoded: Mapping[Var, Any], engine: str
) -> Verdict:
    """Z3's answer; a model counts only if it evaluates to a counterexample."""
    import z3

    answer = solver.check()
    if answer == z3.unsat:
        return Verdict("proved", engine)
    if answer != z3.sat:
        return Verdict("unknown", engine, reason=solver.reason_unknown())
    model = solver.model()
    point = {
        var: _signed(model.eval(encoded[var], model_completion=True))
        for var in variables
        if var in encoded
    }
    if is_counterexample(*goal.closed(), point):
        return Verdict("refuted", engine, counterexample=MappingProxyType(point))
    return Verdict("unknown", engine, reason="counterexample does not evaluate")


def _signed(value: Any) -> int:
    return int(value.as_signed_long() if hasattr(value, "as_signed_long") else value.as_long())
