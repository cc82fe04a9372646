"""Candidate layouts of each value: constraints, carried along access functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ..alternatives.op_spec import OpSpec
from ..alternatives.operator_forms import Elementwise, ProductForm
from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout

#: The most candidates of one value.
LIMIT = 8


def candidates(graph: Graph, specs: Mapping[Op, OpSpec]) -> dict[Value, list[Layout]]:
    """The unchanged layout of each value, and those that flow to it from constraints."""
    layouts = {v: [Layout.identity(v.rank)] for v in graph.values}
    todo: deque[tuple[Value, Layout]] = deque()

    def offer(value: Value, layout: Layout, reshaped: bool = False) -> None:
        """Add a candidate; ``reshaped`` ones in the memory of another only as operands."""
        if graph.may_change(value):
            return
        if reshaped and not value.free and layout not in layouts[value]:
            order = value.order(layout)
            if any(value.order(x) == order for x in layouts[value]):
                layouts[value].append(layout)
                return
        if not value.free and layout not in layouts[value] and len(layouts[value]) < LIMIT:
            layouts[value].append(layout)
            todo.append((value, layout))

    for op in graph.ops:
        for k, layout in seeds(op, specs[op]):
            value = op.values[k]
            assert value is not None
            offer(value, layout.unfused if specs[op].unfuses else layout)
            offer(value, layout, specs[op].unfuses)
    while todo:
        source, layout = todo.popleft()
        for op in (*source.uses, *([source.producer] if source.producer else [])):
            for k, derived in spread(op, specs[op], source, layout):
                value = op.values[k]
                assert value is not None
                formed = specs[op].form is not None and k < len(op.inputs)
                offer(value, derived.unfused if specs[op].unfuses else derived, formed)
                offer(value, derived, specs[op].unfuses)
    return layouts


def seeds(op: Op, spec: OpSpec) -> list[tuple[int, Layout]]:
    """The sources of layouts: constraints, and layouts in which a layout-only op moves nothing."""
    out: list[tuple[int, Layout]] = []
    for constraint in spec.constraints:
        out += [(k, x) for k, x in constraint.layouts.items() if op.values[k] is not None]
    if spec.moves:
        for value in op.values:
            if value is not None:
                out += spread(op, spec, value, Layout.identity(value.rank))
    return out


def spread(op: Op, spec: OpSpec, source: Value, layout: Layout) -> list[tuple[int, Layout]]:
    """The layouts of an op's other values that follow from that of one."""
    if spec.flow is None:
        return []
    out: list[tuple[int, Layout]] = []
    if spec.form is not None:
        out += _spread_formed(op, spec, spec.form, source, layout)
        if spec.own_form:
            return out
    for at, value in enumerate(op.values):
        buffer = spec.flow.params[at]
        if value is not source or buffer is None or not spec.takes(at, layout):
            continue
        layouts = spec.flow.spread({buffer: layout})
        if layouts is None:
            continue
        for k, target in enumerate(op.values):
            to = spec.flow.params[k]
            if target is not None and target is not source and to is not None:
                if spec.takes(k, layouts[to]):
                    out.append((k, layouts[to]))
    return out


def _spread_formed(
    op: Op, spec: OpSpec, form: Elementwise | ProductForm, source: Value, layout: Layout
) -> Iterator[tuple[int, Layout]]:
    """The layouts of an op's other values with which it stays the same operator."""
    assert spec.flow is not None
    buffers = spec.flow.params
    free = frozenset(b for b, v in zip(buffers, op.values, strict=True)
                     if b is not None and (v is None or v.free))  # fmt: skip
    for at, value in enumerate(op.values):
        buffer = buffers[at]
        if value is not source or buffer is None:
            continue
        if at < len(op.inputs):
            for result in form.results(buffer, layout):
                yield len(op.inputs), result
            continue
        for order in form.orders(()):
            for layouts in form.of_result(layout, order, free):
                yield from ((k, layouts[b]) for k, b in enumerate(buffers[:at]) if b is not None)
