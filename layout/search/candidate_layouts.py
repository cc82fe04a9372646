"""Candidate layouts of each value: constraints, carried along access functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout
from .alternatives import OpSpec

#: The most candidates of one value.
LIMIT = 8


def candidates(graph: Graph, specs: Mapping[Op, OpSpec]) -> dict[Value, list[Layout]]:
    """The unchanged layout of each value, and those that flow to it from constraints."""
    layouts = {v: [Layout.identity(v.rank)] for v in graph.values}
    todo: deque[tuple[Value, Layout]] = deque()

    def offer(value: Value, layout: Layout) -> None:
        if not value.free and layout not in layouts[value] and len(layouts[value]) < LIMIT:
            layouts[value].append(layout)
            todo.append((value, layout))

    for op in graph.ops:
        for k, layout in seeds(op, specs[op]):
            value = op.values[k]
            assert value is not None
            offer(value, layout)
    while todo:
        source, layout = todo.popleft()
        for op in (*source.uses, *([source.producer] if source.producer else [])):
            for k, derived in spread(op, specs[op], source, layout):
                value = op.values[k]
                assert value is not None
                offer(value, derived)
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
