"""The plan of one Relax function: layouts of values, alternatives of ops, conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from ..alternatives.alternative import Alternative
from ..alternatives.constant_layouts import constants
from ..alternatives.enumerate_alternatives import alternatives, as_given
from ..alternatives.local_alternatives import weight
from ..alternatives.op_spec import OpSpec
from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout
from .candidate_layouts import candidates
from .layout_problem import CHANGE, LayoutProblem, problem
from .solve import Solution, solve

Cost = Callable[[Value, Layout], float]


@dataclass(frozen=True)
class Plan:
    """A plan.

    Attributes:
        chosen: The alternative of each op.
        stored: The layout that each value is produced in.
        converted: The layouts that each value is converted to.
        reads: For each op, the layout of each tensor that it reads, by parameter.
        needed: The layout in which something other than an op needs a value.
        solution: The solution of the problem.
        refusals: Why ops have no proved form in the layouts that were cheaper.
    """

    chosen: Mapping[Op, Alternative]
    stored: Mapping[Value, Layout]
    converted: Mapping[Value, tuple[Layout, ...]]
    reads: Mapping[Op, Mapping[int, Layout]]
    needed: Mapping[Value, Layout]
    solution: Solution
    refusals: Mapping[Op, str] = field(default_factory=dict)

    def layouts(self, op: Op) -> list[Layout | None]:
        """The layout of each parameter of the op's PrimFunc."""
        read = self.reads[op]
        return [*(read.get(k) for k in range(len(op.inputs))), *self.chosen[op].outputs]


def bytes_moved(value: Value, layout: Layout) -> float:
    """The bytes that a conversion of a value reads and writes, padding included."""
    if value.weight:
        return CHANGE
    return float(weight(value) + value.size(layout))


def conversions_counted(value: Value, layout: Layout) -> float:
    """The number of conversions; bytes break ties."""
    return CHANGE if value.weight else 1e9 + weight(value)


OBJECTIVES: dict[str, Cost] = {"bytes": bytes_moved, "count": conversions_counted}


@dataclass(frozen=True)
class SearchSpace:
    """The search space: candidate layouts of values, alternatives of ops.

    ``needed`` has layouts in which values are required; ``fixed`` those that exist unconverted.
    If ``strict``, operators read the usual layouts only.
    """

    graph: Graph
    specs: Mapping[Op, OpSpec]
    candidates: Mapping[Value, list[Layout]]
    needed: Mapping[Value, Layout]
    fixed: Mapping[Value, Layout]
    alternatives: Mapping[Op, list[Alternative]]
    strict: bool = False


Extend = Callable[[SearchSpace, LayoutProblem, float], None]
"""Extends a problem; its last argument is the cost that one unit of the problem stands for."""


def decide(
    graph: Graph,
    specs: Mapping[Op, OpSpec],
    cost: Cost,
    pins: Mapping[Value, Layout],
    forbidden: Mapping[Op, frozenset[Alternative]],
    seconds: float = 60.0,
    strict: bool = False,
    extend: Extend | None = None,
) -> Plan:
    """The cheapest plan of a function.

    Args:
        graph: The function.
        specs: The op spec of each op.
        cost: The cost of a conversion.
        pins: Other layouts for parameters.
        forbidden: Alternatives that have no proof.
        seconds: Time limit of the solver.
        strict: Use only usual layouts, in which operators stay operators.
        extend: Extends the problem.
    """
    return cheapest(space(graph, specs, pins, forbidden, strict), cost, seconds, extend)


def space(
    graph: Graph,
    specs: Mapping[Op, OpSpec],
    pins: Mapping[Value, Layout],
    forbidden: Mapping[Op, frozenset[Alternative]],
    strict: bool,
) -> SearchSpace:
    """The search space of a function."""
    candidate_layouts = candidates(graph, specs)
    for value, layout in pins.items():
        if layout not in candidate_layouts[value]:
            candidate_layouts[value].append(layout)
    needed = {v: Layout.identity(v.rank) for v in graph.values
              if v.pinned is not None and not v.constant}  # fmt: skip
    fixed = {v: pins.get(v, Layout.identity(v.rank)) for v in graph.values if v.fixed}
    allowed = {
        op: _allowed(op, specs[op], candidate_layouts, forbidden.get(op), strict)
        for op in graph.ops
    }
    return SearchSpace(graph, specs, candidate_layouts, needed, fixed, allowed, strict)


def narrowed(
    search_space: SearchSpace, forbidden: Mapping[Op, frozenset[Alternative]]
) -> SearchSpace:
    """The search space without some alternatives."""
    allowed = {
        op: _allowed(op, search_space.specs[op], search_space.candidates, left_out,
                     search_space.strict)
        for op, left_out in forbidden.items()
    }  # fmt: skip
    return replace(search_space, alternatives={**search_space.alternatives, **allowed})


def cheapest(
    search_space: SearchSpace, cost: Cost, seconds: float, extend: Extend | None = None
) -> Plan:
    """The cheapest plan in a search space."""
    graph, specs = search_space.graph, search_space.specs
    candidate_layouts, fixed = search_space.candidates, search_space.fixed
    cost = functools.cache(cost)
    unit = _unit(candidate_layouts, cost)
    layout_problem = problem(
        graph,
        search_space.alternatives,
        candidate_layouts,
        lambda value, layout: cost(value, layout) / unit,
        search_space.needed,
        fixed,
    )
    if extend is not None:
        extend(search_space, layout_problem, unit)
    solved = solve(layout_problem.program, seconds=seconds)
    solved = replace(solved, objective=solved.objective * unit, bound=solved.bound * unit)
    chosen = {op: c for op, c, x in layout_problem.alternatives if x in solved.chosen}
    stored = dict(fixed)
    for op, alternative in chosen.items():
        stored.update(zip(op.outputs, alternative.outputs, strict=True))
    converted: dict[Value, list[Layout]] = {}
    for value, layout, variable in layout_problem.converted:
        if variable in solved.chosen and stored[value] != layout:
            converted.setdefault(value, []).append(layout)
    reads = {op: _reads(op, chosen[op], specs[op], stored, converted) for op in graph.ops}
    available = {v: tuple(x) for v, x in converted.items()}
    return Plan(chosen, stored, available, reads, search_space.needed, solved)


def layouts_in(op: Op, alternative: Alternative, spec: OpSpec) -> list[Layout | None] | None:
    """The layout of each parameter in an alternative; None if an input may have several."""
    read: dict[int, Layout] = {}
    for k, allowed in enumerate(alternative.inputs):
        if allowed is not None:
            if len(allowed) != 1:
                return None
            (read[k],) = allowed
    layouts = {**read, **{len(op.inputs) + k: x for k, x in enumerate(alternative.outputs)}}
    read |= constants(op, spec, alternative, layouts)
    return [*(read.get(k) for k in range(len(op.inputs))), *alternative.outputs]


def _unit(candidate_layouts: Mapping[Value, list[Layout]], cost: Cost) -> float:
    """The lowest cost of moving a byte; the problem is scaled by it.

    Tie-breaks have the size of a few bytes. Without scaling, they would dominate an objective in
    seconds.
    """
    rates = (cost(v, x) / bytes_moved(v, x) for v, layouts in candidate_layouts.items()
             if not v.weight and not v.free for x in layouts[1:] if bytes_moved(v, x))  # fmt: skip
    return min((r for r in rates if r > 0 and isfinite(r)), default=1.0)


def _allowed(
    op: Op,
    spec: OpSpec,
    candidate_layouts: Mapping[Value, list[Layout]],
    forbidden: frozenset[Alternative] | None,
    strict: bool,
) -> list[Alternative]:
    """The alternatives of an op except forbidden ones; at least one."""
    forbidden = forbidden or frozenset()
    allowed = [
        alternative.strict if strict or alternative in forbidden else alternative
        for alternative in alternatives(op, spec, candidate_layouts)
    ]
    allowed = [
        alternative for alternative in dict.fromkeys(allowed) if alternative not in forbidden
    ]
    unchanged = as_given(op, spec)
    required = spec.constraint is not None and not spec.named
    narrowed = strict or bool(forbidden)
    if not allowed or (
        narrowed
        and not required
        and not any(alternative.same_as(unchanged) for alternative in allowed)
    ):
        allowed.append(unchanged)  # an alternative with more input layouts may have stood for it
    return allowed


def _reads(
    op: Op, alternative: Alternative, spec: OpSpec, stored: Mapping[Value, Layout],
    converted: Mapping[Value, list[Layout]],
) -> dict[int, Layout]:  # fmt: skip
    out: dict[int, Layout] = {}
    for k, (value, allowed) in enumerate(zip(op.inputs, alternative.inputs, strict=True)):
        if value is None or allowed is None:
            continue
        available = [stored[value], *converted.get(value, ())]
        orders = {value.order(x): x for x in allowed}
        equivalent = (orders.get(value.order(x)) for x in available)
        direct = next((x for x in available if x in allowed), None)
        out[k] = direct or next(x for x in equivalent if x is not None)
    layouts = {**out, **{len(op.inputs) + k: x for k, x in enumerate(alternative.outputs)}}
    return {**out, **constants(op, spec, alternative, layouts)}
