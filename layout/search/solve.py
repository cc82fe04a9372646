"""Solve a binary program to proven optimality, part by independent part (HiGHS).

Equal parts are solved once. The linear relaxation comes first: an integral solution of it is
optimal. Otherwise variables are eliminated (`layout.search.eliminate`). If the tables for that
would be too large, branch and bound decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from .eliminate import Part, eliminated
from .layout_problem import BinaryProgram

Row = tuple[float, dict[int, float]]


class NoSolution(ValueError):
    """No solution exists, or the solver found none within its time limit."""


@dataclass(frozen=True)
class Solution:
    """``chosen`` has the variables that are 1; no solution costs less than ``bound``."""

    chosen: frozenset[int]
    objective: float
    bound: float
    status: str
    parts: int


def solve(program: BinaryProgram, *, seconds: float = 60.0) -> Solution:
    """The cheapest solution. Raises `NoSolution` if there is none."""
    rows, fixed = _propagate(program)
    chosen = {x for x, value in fixed.items() if value}
    bound_to = {x for _, row in rows for x in row}
    chosen |= {
        column
        for column, cost in enumerate(program.cost)
        if cost < 0 and column not in bound_to and column not in fixed
    }
    objective = bound = sum((program.cost[x] for x in chosen), 0.0)
    status, parts = "optimal", _parts(rows)
    solved_parts: dict[Part, Answer] = {}
    for rows in parts:
        columns = sorted({x for _, row in rows for x in row})
        part = _renumbered(program, rows, columns)
        if part not in solved_parts:
            solved_parts[part] = _solved(part, seconds)
        ones, cost, lower_bound, part_status = solved_parts[part]
        chosen |= {columns[k] for k in ones}
        objective, bound = objective + cost, bound + lower_bound
        status = status if part_status == "optimal" else part_status
    return Solution(frozenset(chosen), objective, bound, status, len(parts))


def _propagate(program: BinaryProgram) -> tuple[list[Row], dict[int, int]]:
    """The rows without variables that a row with one positive variable sets to 1."""
    fixed: dict[int, int] = {}
    rows = [(low, dict(row)) for low, row in program.rows]
    while True:
        changed = False
        kept: list[Row] = []
        for low, row in rows:
            remaining = {x: k for x, k in row.items() if x not in fixed}
            low -= sum(k * fixed[x] for x, k in row.items() if x in fixed)
            positive = [k for k in remaining.values() if k > 0]
            if low <= sum(k for k in remaining.values() if k < 0):
                changed = changed or len(remaining) < len(row)
                continue
            if low > sum(positive):
                raise NoSolution(f"a sum of at most {sum(positive):g} must be at least {low:g}")
            if low > 0 and len(positive) == 1 and len(remaining) == 1:
                fixed[next(iter(remaining))] = 1
                changed = True
                continue
            kept.append((low, remaining))
        rows = kept
        if not changed:
            return rows, fixed


def _parts(rows: Sequence[Row]) -> list[list[Row]]:
    """The groups of rows that share variables."""
    root: dict[int, int] = {}

    def find(column: int) -> int:
        root.setdefault(column, column)
        while root[column] != column:
            root[column] = root[root[column]]
            column = root[column]
        return column

    for _, row in rows:
        first, *others = row
        for column in others:
            root[find(column)] = find(first)
    groups: dict[int, list[Row]] = {}
    for low, row in rows:
        groups.setdefault(find(next(iter(row))), []).append((low, row))
    return list(groups.values())


def _renumbered(program: BinaryProgram, rows: Sequence[Row], columns: Sequence[int]) -> Part:
    """Some rows over renumbered columns."""
    place = {x: k for k, x in enumerate(columns)}
    new_rows = tuple(
        (low, tuple(sorted((place[x], k) for x, k in row.items()))) for low, row in rows
    )
    return tuple(program.cost[x] for x in columns), new_rows


Answer = tuple[frozenset[int], float, float, str]
"""The columns that are 1, their cost, the lower bound, and the solver's status."""


def _solved(part: Part, seconds: float) -> Answer:
    relaxed = _run(_model(part), seconds)
    if relaxed.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        ones = _integers(part, relaxed)
        if ones is not None:
            cost = float(sum(part[0][k] for k in ones))
            return ones, cost, cost, "optimal"
    ones = eliminated(part)
    if ones is not None:
        cost = float(sum(part[0][k] for k in ones))
        return ones, cost, cost, "optimal"
    lp = _model(part)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(part[0])
    highs = _run(lp, seconds)
    status, info = highs.getModelStatus(), highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise NoSolution(f"the problem has no solution: {highs.modelStatusToString(status)}")
    ones = frozenset(k for k, v in enumerate(highs.getSolution().col_value) if v > 0.5)
    optimal = status == highspy.HighsModelStatus.kOptimal
    outcome = "optimal" if optimal else highs.modelStatusToString(status)
    bound = (
        info.mip_dual_bound if np.isfinite(info.mip_dual_bound) else info.objective_function_value
    )
    return ones, info.objective_function_value, bound, outcome


def _integers(part: Part, relaxed: Any) -> frozenset[int] | None:
    """The solution of the relaxation if it is integral; None if it is not."""
    values = relaxed.getSolution().col_value
    ones = frozenset(k for k, v in enumerate(values) if v > 0.5)
    costs, rows = part
    if any(sum(c for k, c in row if k in ones) < low for low, row in rows):
        return None
    cost, least = sum(costs[k] for k in ones), relaxed.getInfo().objective_function_value
    return ones if cost <= least + 1e-9 * max(abs(least), 1.0) else None


def _model(part: Part) -> Any:
    costs, rows = part
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), len(rows)
    lp.col_cost_ = np.array(costs)
    lp.col_lower_, lp.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
    lp.row_lower_ = np.array([low for low, _ in rows])
    lp.row_upper_ = np.full(len(rows), highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(row) for _, row in rows)])
    lp.a_matrix_.index_ = np.array([x for _, row in rows for x, _ in row])
    lp.a_matrix_.value_ = np.array([k for _, row in rows for _, k in row])
    return lp


class _Silent(highspy.Highs):
    """A solver that prints nothing.

    The constructor calls `enableCallbacks`, and HiGHS 1.16 prints its banner at the first call.
    """

    def enableCallbacks(self) -> None:
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def _run(lp: Any, seconds: float) -> Any:
    highs = _Silent()  # type: ignore[no-untyped-call]
    for option, value in (("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", seconds)):
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    highs.run()
    return highs
