"""The reasons for a plan, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..alternatives.alternative import GIVEN
from ..alternatives.local_alternatives import weight
from ..alternatives.op_spec import OpSpec
from ..graph.relax_graph import Graph, Op, Value
from ..model.buffer_bytes import size_of
from ..model.layout import Layout
from ..search.function_plan import Plan
from .axis_letters import letters
from .count import count
from .plan_report import Conversion, OpChoice, PlanReport, ValueChoice

Axes = Mapping[Value, str]
Part = tuple[Graph, Plan, Mapping[Op, OpSpec]]


def report(mod: Any, planned: Any, parts: Sequence[Part]) -> PlanReport:
    """The report of the plans of a module's functions; ``mod`` is the unplanned module."""
    values, conversions, ops = [], [], []
    for graph, plan, specs in parts:
        axes = letters(graph, specs)
        values += [_value(v, plan, axes.get(v, "")) for v in graph.values if not v.free]
        conversions += _conversions(plan, specs, axes)
        ops += [_op(op, graph, plan, specs[op], axes) for op in graph.ops]
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


def _value(value: Value, plan: Plan, axes: str) -> ValueChoice:
    layout = plan.stored.get(value, Layout.identity(value.rank)).over(axes)
    if value.fixed:
        why = "a parameter of the function" if value.producer is None else "from a Relax operator"
    elif value.producer is not None:
        why = f"{value.producer.name}: {plan.chosen[value.producer].why}"
    else:
        why = "as given"
    return ValueChoice(value.name, value.shape, value.dtype, layout, why)


def _conversions(plan: Plan, specs: Mapping[Op, OpSpec], axes: Axes) -> list[Conversion]:
    out = []
    for value, targets in plan.converted.items():
        if value.weight:
            continue
        for target in targets:
            users = [op for op in value.uses if target in _read(plan, op, value)]
            out.append(
                Conversion(
                    value.name,
                    plan.stored[value].over(axes.get(value, "")),
                    target.over(axes.get(value, "")),
                    size_of(target.physical(value.shape), value.dtype),
                    _why(value, target, users, plan, specs),
                    tuple(op.outputs[0].name for op in users if op.outputs),
                )
            )
    for op, alternative in plan.chosen.items():
        if alternative.moves:
            source = next(v for v in op.inputs if v is not None)
            source_at, same = (Layout.identity(v.rank).over(axes.get(v, ""))
                               for v in (source, op.outputs[0]))  # fmt: skip
            why = f"{op.name} moves elements in every layout of its neighbours that was considered"
            out.append(Conversion(source.name, source_at, same,
                                  weight(op.outputs[0]), why, (op.outputs[0].name,)))  # fmt: skip
    return out


def _read(plan: Plan, op: Op, value: Value) -> list[Layout]:
    return [
        plan.reads[op][k]
        for k, operand in enumerate(op.inputs)
        if operand is value and k in plan.reads[op]
    ]


def _why(
    value: Value, target: Layout, users: Sequence[Op], plan: Plan, specs: Mapping[Op, OpSpec]
) -> str:
    if plan.needed.get(value) == target:
        return f"pinned: {value.pinned}"
    constraints = [specs[op].constraint for op in users]
    first = next((w.why for w in constraints if w is not None), None)
    if first is not None:
        return first
    reasons = [specs[op].reason for op in users if specs[op].reason]
    if reasons:
        return f"{users[0].name} stays as given: {reasons[0]}"
    return "matches the other operands of " + ", ".join(op.name for op in users)


def _op(op: Op, graph: Graph, plan: Plan, spec: OpSpec, axes: Axes) -> OpChoice:
    name, alternative = op.outputs[0].name if op.outputs else op.name, plan.chosen[op]
    pairs = zip(op.outputs, alternative.outputs, strict=True)
    layouts = ", ".join(x.over(axes.get(v, "")).spell() for v, x in pairs)
    why = spec.reason or spec.note or alternative.why
    required = spec.constraint is not None and any(
        not layout.is_identity for layout in spec.constraint.layouts.values()
    )
    unmet = required and alternative.why == GIVEN
    if unmet and spec.constraint is not None:
        written = next((v.name for v in op.values if v is not None and graph.may_change(v)), None)
        reason = "that costs more or could not be proved"
        if written is not None:
            reason = f"an impure call may write into {written}"
        reason = plan.refusals.get(op, reason)
        why = f"{GIVEN}: {spec.constraint.why}, but {reason}"
    replaced = spec.replacement is not None and alternative.why != GIVEN
    return OpChoice(name, op.name, layouts, why, not unmet or spec.named, replaced, spec.note)
