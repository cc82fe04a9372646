"""The layout problem: an alternative for each op, layouts for each value.

y[o, i] ∈ {0, 1}    op o has alternative i; exactly one each
c[v, l] ∈ {0, 1}    value v is converted to layout l, once for all of its users
s[v, l] ∈ {0, 1}    value v is reshaped to layout l, which is the same memory
p[v, l]             v is produced in l: the sum of the y that write it in l
y[o, i] <= Σ_l p[v, l] + c[v, l] + s[v, l]    over the layouts l in which alternative i reads v
s[v, l] <= Σ_k p[v, k] + c[v, k]              over the other layouts k of the same memory
minimise  Σ cost[o, i] y[o, i] + Σ cost[v, l] c[v, l] + Σ RESHAPE s[v, l]

The units are bytes. Ties go to fewer conversions, then to fewer changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..alternatives.alternative import Alternative
from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout

Cost = Callable[[Value, Layout], float]

#: Added to the cost of a conversion: of plans that move as many bytes, the one with fewer wins.
TIE = 1.0
#: Cost of an op in another layout, so that no layout changes without a gain; even 4,000 of them do
#: not outweigh a conversion.
CHANGE = TIE / 4096
#: The same if memory does not change; and the cost of a reshape, which may prevent fusion.
SAME, RESHAPE = CHANGE / 64, CHANGE / 2


@dataclass
class BinaryProgram:
    """``min cost·x`` over binary x with ``low <= Σ coefficient x`` in each row."""

    cost: list[float] = field(default_factory=list)
    rows: list[tuple[float, dict[int, float]]] = field(default_factory=list)

    def variable(self, cost: float) -> int:
        self.cost.append(cost)
        return len(self.cost) - 1


@dataclass(frozen=True)
class LayoutProblem:
    """The program, and the meaning of its variables."""

    program: BinaryProgram
    alternatives: tuple[tuple[Op, Alternative, int], ...]
    converted: tuple[tuple[Value, Layout, int], ...]


def problem(
    graph: Graph,
    alternatives: Mapping[Op, Sequence[Alternative]],
    candidates: Mapping[Value, Sequence[Layout]],
    cost: Cost,
    needed: Mapping[Value, Layout],
    fixed: Mapping[Value, Layout],
) -> LayoutProblem:
    """The problem of a function; ``needed`` and ``fixed`` are as in `decide.Space`."""
    builder = _ProblemBuilder(candidates, cost, fixed)
    for op in graph.ops:
        builder.add(op, alternatives[op])
    for op in graph.ops:
        builder.require_inputs(op, alternatives[op])
    for value, layout in needed.items():
        builder.require(value, (layout,), {})
    return LayoutProblem(
        builder.program, tuple(builder.all_alternatives), tuple(builder.all_converted)
    )


class _ProblemBuilder:
    """Collects the variables, constraints and costs of the problem."""

    def __init__(
        self,
        candidates: Mapping[Value, Sequence[Layout]],
        cost: Cost,
        fixed: Mapping[Value, Layout],
    ) -> None:
        self.candidates, self.cost, self.fixed = candidates, cost, fixed
        self.program = BinaryProgram()
        self.all_alternatives: list[tuple[Op, Alternative, int]] = []
        self.all_converted: list[tuple[Value, Layout, int]] = []
        self.produced: dict[Value, dict[Layout, list[int]]] = {}
        self.converted: dict[tuple[Value, Layout], int] = {}
        self.reshaped: dict[tuple[Value, Layout], int] = {}
        self.variables: dict[Op, list[int]] = {}

    def add(self, op: Op, alternatives: Sequence[Alternative]) -> None:
        """Add the variables of an op's alternatives."""
        variables = self.variables[op] = []
        for alternative in alternatives:
            variable = self.program.variable(
                alternative.cost + self.moved(op, alternative) + _tie_break(op, alternative)
            )
            variables.append(variable)
            self.all_alternatives.append((op, alternative, variable))
            for value, layout in zip(op.outputs, alternative.outputs, strict=True):
                self.produced.setdefault(value, {}).setdefault(layout, []).append(variable)
        self.program.rows.append((1.0, dict.fromkeys(variables, 1.0)))
        self.program.rows.append((-1.0, dict.fromkeys(variables, -1.0)))

    def moved(self, op: Op, alternative: Alternative) -> float:
        value = op.outputs[0] if alternative.moves else None
        return 0.0 if value is None else self.cost(value, Layout.identity(value.rank)) + TIE

    def require_inputs(self, op: Op, alternatives: Sequence[Alternative]) -> None:
        """Require each input of an alternative in one of the layouts that it reads."""
        for operand in dict.fromkeys(v for v in op.inputs if v is not None and not v.free):
            groups: dict[frozenset[Layout], list[int]] = {}
            for alternative, variable in zip(alternatives, self.variables[op], strict=True):
                for value, allowed in zip(op.inputs, alternative.inputs, strict=True):
                    if value is operand and allowed is not None:
                        groups.setdefault(allowed, []).append(variable)
            for allowed, variables in groups.items():
                if not allowed.issuperset(self.candidates[operand]):
                    self.require(operand, allowed, dict.fromkeys(set(variables), 1.0))

    def require(
        self, value: Value, allowed: Collection[Layout], readers: Mapping[int, float]
    ) -> None:
        """Add ``Σ y <= Σ p + c + s`` over the allowed layouts, with ``1 <= …`` if no y reads it."""
        if self.fixed.get(value) in allowed:
            return
        row: dict[int, float] = {}
        for layout in [x for x in self.candidates[value] if x in allowed]:
            for variable in self.produced.get(value, {}).get(layout, ()):
                row[variable] = 1.0
            row[self.conversion(value, layout)] = 1.0
            peers = self.peers(value, layout)
            if peers is not None:
                row[self.reshape(value, layout, peers)] = 1.0
        for variable, coef in readers.items():
            row[variable] = row.get(variable, 0.0) - coef
        self.program.rows.append((0.0 if readers else 1.0, row))

    def peers(self, value: Value, layout: Layout) -> list[int] | None:
        """The variables that put ``value`` into the same memory in another shape; None without any.

        The list is empty if the value is ``fixed`` in that memory.
        """
        same = [x for x in self.candidates[value]
                if x != layout and value.order(x) == value.order(layout)]  # fmt: skip
        if self.fixed.get(value) in same:
            return []
        produced = self.produced.get(value, {})
        made = [x for peer in same for x in produced.get(peer, ())]
        return [*made, *(self.conversion(value, peer) for peer in same)] or None

    def reshape(self, value: Value, layout: Layout, peers: Sequence[int]) -> int:
        key = (value, layout)
        if key not in self.reshaped:
            variable = self.reshaped[key] = self.program.variable(RESHAPE)
            if peers:
                self.program.rows.append((0.0, {**dict.fromkeys(peers, 1.0), variable: -1.0}))
        return self.reshaped[key]

    def conversion(self, value: Value, layout: Layout) -> int:
        key = (value, layout)
        if key not in self.converted:
            cost = self.cost(value, layout)
            if not math.isfinite(cost):
                raise ValueError(
                    f"objective: a conversion of {value.name} to {layout} costs {cost}"
                )
            self.converted[key] = self.program.variable(cost if value.weight else cost + TIE)
            self.all_converted.append((value, layout, self.converted[key]))
        return self.converted[key]


def _tie_break(op: Op, alternative: Alternative) -> float:
    """The tie-break of an alternative: higher if it changes more."""
    moved = sum(x is not None and not any(y.is_identity for y in x) for x in alternative.inputs)
    largest = max(
        (_layout_tie_break(v, x) for v, x in zip(op.outputs, alternative.outputs, strict=True)),
        default=0.0,
    )
    return largest + CHANGE * moved / 16


def _layout_tie_break(value: Value, layout: Layout) -> float:
    if layout.is_identity:
        return 0.0
    return SAME if value.order(layout) == value.order(Layout.identity(value.rank)) else CHANGE
