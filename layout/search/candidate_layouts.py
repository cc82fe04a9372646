"""Candidate layouts of each value: constraints, carried along access functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout
from .alternatives import OpSpec

#: Candidates of one value at most.
LIMIT = 8


def candidates(graph: Graph, specs: Mapping[Op, OpSpec]) -> dict[Value, list[Layout]]:
    """The unchanged layout of each value, and those that flow to it from constraints."""
    found = {v: [Layout.identity(v.rank)] for v in graph.values}
    todo: deque[tuple[Value, Layout]] = deque()

    def offer(value: Value, layout: Layout) -> None:
        if not value.free and layout not in found[value] and len(found[value]) < LIMIT:
            found[value].append(layout)
            todo.append((value, layout))

    for op in graph.ops:
        for k, layout in seeds(op, specs[op]):
            value = op.values[k]
            assert value is not None
            offer(value, layout)
    while todo:
        v, layout = todo.popleft()
        for op in (*v.uses, *([v.producer] if v.producer else [])):
            for k, other in spread(op, specs[op], v, layout):
                value = op.values[k]
                assert value is not None
                offer(value, other)
    return found


def seeds(op: Op, spec: OpSpec) -> list[tuple[int, Layout]]:
    """The sources of layouts: constraints, and layouts in which a layout-only op moves nothing."""
    out: list[tuple[int, Layout]] = []
    for want in spec.constraints:
        out += [(k, x) for k, x in want.layouts.items() if op.values[k] is not None]
    if spec.moves:
        for value in op.values:
            if value is not None:
                out += spread(op, spec, value, Layout.identity(value.rank))
    return out


def spread(op: Op, spec: OpSpec, v: Value, layout: Layout) -> list[tuple[int, Layout]]:
    """The layouts of an op's other values that follow from that of one."""
    if spec.flow is None:
        return []
    out: list[tuple[int, Layout]] = []
    for at, value in enumerate(op.values):
        b = spec.flow.params[at]
        if value is not v or b is None or not spec.takes(at, layout):
            continue
        known = spec.flow.spread({b: layout})
        if known is None:
            continue
        for k, other in enumerate(op.values):
            to = spec.flow.params[k]
            if other is not None and other is not v and to is not None:
                if spec.takes(k, known[to]):
                    out.append((k, known[to]))
    return out
