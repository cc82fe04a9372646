"""Solve a program by variable elimination: exact, and fast if few variables share rows.

Columns of which exactly one is 1 form one variable with as many values; any other column is a
variable with two. Eliminating one leaves a table over its neighbours (bucket elimination):

    m[N] = min over x of Σ tables[x, N],    tables of costs, inf where a row fails

Tables stay small for chains, trees and ladders of any length, and in general if small separators
exist; an articulation point is a separator of one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]
#: Costs of the columns, and rows: the least value, columns with their coefficients.
Part = tuple[tuple[float, ...], tuple[tuple[float, tuple[tuple[int, float], ...]], ...]]

#: Entries of the largest table and of all tables; dimensions of a NumPy array.
LARGEST, TOTAL, RANK = 1 << 20, 1 << 27, 30


@dataclass(frozen=True)
class Variable:
    """``columns``: value k sets the k-th; a ``single`` one is 0 or 1."""

    columns: tuple[int, ...]
    single: bool

    @property
    def size(self) -> int:
        return 2 if self.single else len(self.columns)

    def values(self, coefficients: dict[int, float]) -> list[float]:
        """By value, what it adds to a sum over columns."""
        values = [coefficients.get(c, 0.0) for c in self.columns]
        return [0.0, *values] if self.single else values


def eliminated(part: Part) -> frozenset[int] | None:
    """The columns that are 1 in a cheapest solution.

    None if a table would be too large or no solution exists.
    """
    variables = _variables(part)
    of = {c: k for k, var in enumerate(variables) for c in var.columns}
    scopes = [sorted({of[c] for c, _ in row}) for _, row in part[1]]
    order = _order([var.size for var in variables], scopes)
    if order is None:
        return None
    rank = {var: k for k, var in enumerate(order)}
    tables = _Tables(variables, rank)
    for k, variable in enumerate(variables):
        tables.add([k], np.array(variable.values({c: part[0][c] for c in variable.columns})))
    for (low, row), scope in zip(part[1], scopes, strict=True):
        tables.add(*tables.row(low, dict(row), scope))
    values = tables.solved(order)
    if values is None:
        return None
    return frozenset(
        var.columns[value - var.single]
        for var, value in zip(variables, values, strict=True)
        if value or not var.single
    )


def _variables(part: Part) -> list[Variable]:
    """The variables: columns with rows ``1 <= Σ`` and ``-1 <= -Σ``, and single columns."""
    low = {tuple(c for c, _ in row) for least, row in part[1]
           if least == 1 and all(k == 1 for _, k in row)}  # fmt: skip
    high = {tuple(c for c, _ in row) for least, row in part[1]
            if least == -1 and all(k == -1 for _, k in row)}  # fmt: skip
    out: list[Variable] = []
    used: set[int] = set()
    for columns in sorted(low & high):
        if columns and used.isdisjoint(columns):
            out.append(Variable(columns, False))
            used.update(columns)
    return out + [Variable((c,), True) for c in range(len(part[0])) if c not in used]


def _order(sizes: Sequence[int], scopes: Sequence[Sequence[int]]) -> list[int] | None:
    """The elimination order: next the variable with the smallest table; None if too large."""
    neighbours: list[set[int]] = [set() for _ in sizes]
    for scope in scopes:
        if prod(sizes[v] for v in scope) > LARGEST:
            return None
        for var in scope:
            neighbours[var].update(scope)
    for var, adjacent in enumerate(neighbours):
        adjacent.discard(var)

    def table(var: int) -> int:
        return prod((sizes[u] for u in neighbours[var]), start=sizes[var])

    waiting = [(table(v), v) for v in range(len(sizes))]
    heapify(waiting)
    order: list[int] = []
    finished: set[int] = set()
    total = 0
    while waiting:
        size, var = heappop(waiting)
        if var in finished or size != table(var):
            continue
        total += size
        if size > LARGEST or total > TOTAL or len(neighbours[var]) >= RANK:
            return None
        order.append(var)
        finished.add(var)
        for a, b in combinations(neighbours[var], 2):
            neighbours[a].add(b)
            neighbours[b].add(a)
        for neighbour in neighbours[var]:
            neighbours[neighbour].discard(var)
            heappush(waiting, (table(neighbour), neighbour))
    return order


class _Tables:
    """Tables, by the variable that is eliminated first; axes are in elimination order."""

    def __init__(self, variables: Sequence[Variable], rank: dict[int, int]) -> None:
        self.variables, self.rank = variables, rank
        self.of: list[list[tuple[list[int], Table]]] = [[] for _ in variables]

    def add(self, scope: list[int], table: Table) -> None:
        self.of[scope[0]].append((scope, table))

    def row(self, low: float, row: dict[int, float], scope: list[int]) -> tuple[list[int], Table]:
        """The table of a row: 0 where it holds, else inf."""
        scope = sorted(scope, key=self.rank.__getitem__)
        total: Any = 0.0
        for k, var in enumerate(scope):
            axes = (1,) * k + (-1,) + (1,) * (len(scope) - k - 1)
            total = total + np.array(self.variables[var].values(row)).reshape(axes)
        return scope, np.where(total >= low - 1e-9, 0.0, np.inf)

    def solved(self, order: Sequence[int]) -> list[int] | None:
        """Return the value of each variable; None if no solution exists."""
        best: dict[int, tuple[list[int], Any]] = {}
        for var in order:
            neighbours = sorted({v for scope, _ in self.of[var] for v in scope} - {var},
                                key=self.rank.__getitem__)  # fmt: skip
            total = sum(
                self.over(table, scope, [var, *neighbours]) for scope, table in self.of[var]
            )
            best[var] = neighbours, np.argmin(total, axis=0)
            reduced = np.min(total, axis=0)
            if not np.isfinite(reduced).any():
                return None
            if neighbours:
                self.add(neighbours, reduced)
            self.of[var] = []
        values = [0] * len(self.variables)
        for var in reversed(order):
            neighbours, choice = best[var]
            values[var] = int(choice[tuple(values[u] for u in neighbours)])
        return values

    def over(self, table: Table, scope: Sequence[int], wide: Sequence[int]) -> Table:
        """The table with an axis of length 1 for each variable that it lacks."""
        present = set(scope)
        return table.reshape([self.variables[u].size if u in present else 1 for u in wide])
