"""The reasons for a plan, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..graph.relax_graph import Graph, Op, Value
from ..model.buffer_bytes import size_of
from ..model.layout import Layout
from ..search.alternatives import GIVEN, Choice, Kind, weight
from ..search.decide import Plan
from .count import count
from .letters import letters
from .plan_report import Conversion, OpChoice, PlanReport, ValueChoice

Axes = Mapping[Value, str]
Part = tuple[Graph, Plan, Mapping[Op, Kind]]


def report(mod: Any, planned: Any, parts: Sequence[Part]) -> PlanReport:
    """The report of the plans of a module's functions; ``mod`` is the unplanned module."""
    values, conversions, ops = [], [], []
    for graph, plan, kinds in parts:
        axes = letters(graph, kinds)
        values += [_value(v, plan, axes.get(v, "")) for v in graph.values if not v.free]
        conversions += _conversions(graph, plan, kinds, axes)
        ops += [_op(op, plan.ways[op], kinds[op], axes) for op in graph.ops]
    solved = [plan.solution for _, plan, _ in parts]
    return PlanReport(
        tuple(values),
        tuple(conversions),
        tuple(ops),
        next((s.status for s in solved if s.status != "optimal"), "optimal"),
        sum(s.objective for s in solved),
        sum(s.bound for s in solved),
        partial(count, mod),
        partial(count, planned),
    )


def _value(v: Value, plan: Plan, axes: str) -> ValueChoice:
    layout = plan.stored.get(v, Layout.identity(v.rank)).over(axes)
    if v.fixed:
        why = "a parameter of the function" if v.producer is None else "made by a Relax operator"
    elif v.producer is not None:
        why = f"{v.producer.name}: {plan.ways[v.producer].why}"
    else:
        why = "as given"
    return ValueChoice(v.name, v.shape, v.dtype, layout, why)


def _conversions(
    graph: Graph, plan: Plan, kinds: Mapping[Op, Kind], axes: Axes
) -> list[Conversion]:
    out = []
    for v, targets in plan.converted.items():
        if v.weight:
            continue
        for target in targets:
            users = [op for op in v.uses if target in _read(plan, op, v)]
            out.append(Conversion(
                v.name, plan.stored[v].over(axes.get(v, "")), target.over(axes.get(v, "")),
                size_of(target.physical(v.shape), v.dtype), _why(v, target, users, plan, kinds),
                tuple(op.outputs[0].name for op in users if op.outputs),
            ))  # fmt: skip
    for op, way in plan.ways.items():
        if way.moves:
            source = next(v for v in op.inputs if v is not None)
            source_at, same = (Layout.identity(v.rank).over(axes.get(v, ""))
                               for v in (source, op.outputs[0]))  # fmt: skip
            why = f"{op.name} moves elements in all layouts of its neighbours that were considered"
            out.append(Conversion(source.name, source_at, same,
                                  weight(op.outputs[0]), why, (op.outputs[0].name,)))  # fmt: skip
    return out


def _read(plan: Plan, op: Op, v: Value) -> list[Layout]:
    return [plan.reads[op][k] for k, x in enumerate(op.inputs) if x is v and k in plan.reads[op]]


def _why(
    v: Value, target: Layout, users: Sequence[Op], plan: Plan, kinds: Mapping[Op, Kind]
) -> str:
    if plan.needed.get(v) == target:
        return f"pinned: {v.pinned}"
    wanted = [kinds[op].want for op in users]
    first = next((w.why for w in wanted if w is not None), None)
    if first is not None:
        return first
    reasons = [kinds[op].reason for op in users if kinds[op].reason]
    if reasons:
        return f"{users[0].name} stays as given: {reasons[0]}"
    return "read in the order of its other operands by " + ", ".join(op.name for op in users)


def _op(op: Op, way: Choice, kind: Kind, axes: Axes) -> OpChoice:
    name = op.outputs[0].name if op.outputs else op.name
    pairs = zip(op.outputs, way.outputs, strict=True)
    laid = ", ".join(x.over(axes.get(v, "")).spell() for v, x in pairs)
    why = kind.reason or way.why
    constrained = kind.want is not None and any(
        not x.is_identity for x in kind.want.layouts.values()
    )
    if constrained and kind.want is not None and way.why == GIVEN:
        why = f"{GIVEN}: {kind.want.why}, but that costs more, or it has no proved form"
    return OpChoice(name, op.name, laid, why)
