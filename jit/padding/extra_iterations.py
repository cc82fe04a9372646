"""The iterations of reductions that only N has, and when they change nothing."""

from __future__ import annotations

import math

from ...analysis.terms.condition_terms import ge0
from ...analysis.terms.reduction_terms import identity
from ...analysis.terms.term import Const, Int, Reduce, Term, Var, as_int, fresh
from ...analysis.terms.traversal import free
from .iteration_terms import literal
from .padding_problem import Facts, PaddingProblem
from .padding_value import KnownNumber

#: Combiners for which a repeated element changes nothing.
_IDEMPOTENT = frozenset({"max", "min", "and", "or"})


def repeats(problem: PaddingProblem, reduction: Reduce, var: Var, facts: Facts) -> bool:
    """Return whether further iterations of an axis only repeat elements of an idempotent op."""
    assert var.extent is not None
    if reduction.op not in _IDEMPOTENT or var in free(reduction.body):
        return False
    if any(x.extent is not None and var in free(x.extent) for x in reduction.axes):
        return False
    if not problem.holds(ge0(var.extent - 1), facts):
        return False
    if "float" in reduction.body.dtype:
        problem.finite = True  # max(NaN, x) is x
    return True


def extra_iterations(
    problem: PaddingProblem, axis: Var, axes: tuple[Var, ...], growing: list[Var]
) -> dict[Var, Term]:
    """Return the iterations that only N has along one axis, and all of N's along the others."""
    out: dict[Var, Term] = {}
    for var in axes:
        assert var.extent is not None
        if var is axis:
            more = problem.at(var.extent) - var.extent
            out[var] = var.extent + as_int(fresh(more, "more"))
        elif var in growing:
            out[var] = as_int(fresh(problem.at(var.extent), "all"))
    return out


def is_neutral(problem: PaddingProblem, reduction: Reduce, contribution: KnownNumber) -> bool:
    """Return whether combining with this value changes nothing."""
    unit = identity(reduction.op, reduction.body.dtype)
    init = literal(reduction.init)
    value = contribution.number
    if reduction.op in ("max", "min"):
        ends = [unit.value] if isinstance(unit, Const) else []
        ends += [-math.inf if reduction.op == "max" else math.inf] if isinstance(unit, Int) else []
        ends += [init.number] if isinstance(init, KnownNumber) else []
        good = any(value <= e if reduction.op == "max" else value >= e for e in ends)
        if good and "float" in reduction.body.dtype:
            problem.finite = True  # max(NaN, x) is x
        return good
    if isinstance(unit, Int):
        return unit.const is not None and value == unit.const
    return isinstance(unit, Const) and bool(value == unit.value)
