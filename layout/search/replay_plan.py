"""Replay a plan: build it from the layouts of each op, without choosing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..alternatives.alternative import GIVEN, Alternative
from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout
from .function_plan import Plan
from .solve import Solution

Layouts = Sequence[Layout | None]
"""The layouts of an op by parameter; None for scalars and for unchanged tensors."""


def planned_in(graph: Graph, layouts: Mapping[Op, Layouts], status: str) -> Plan:
    """The plan with these layouts and the conversions that they need; it is not proved yet.

    Raises ``ValueError`` if they do not fit an op.
    """
    completed = {op: _completed(op, layouts[op]) for op in graph.ops}
    stored = {v: Layout.identity(v.rank) for v in graph.values if v.fixed}
    needed = {v: Layout.identity(v.rank) for v in graph.values
              if v.pinned is not None and not v.constant}  # fmt: skip
    reads: dict[Op, dict[int, Layout]] = {}
    chosen: dict[Op, Alternative] = {}
    for op, op_layouts in completed.items():
        count = len(op.inputs)
        outputs = tuple(x for x in op_layouts[count:] if x is not None)
        reads[op] = {k: x for k, x in enumerate(op_layouts[:count]) if x is not None}
        unchanged = all(x is None or x.is_identity for x in op_layouts)
        inputs = tuple(None if v is None or v.free or x is None else frozenset((x,))
                       for v, x in zip(op.inputs, op_layouts[:count], strict=True))  # fmt: skip
        chosen[op] = Alternative(outputs, inputs, 0.0, GIVEN if unchanged else "as planned before")
        stored.update(zip(op.outputs, outputs, strict=True))
    converted: dict[Value, dict[Layout, None]] = {}
    read_layouts = [(value, x) for op in graph.ops for k, x in reads[op].items()
                    if (value := op.inputs[k]) is not None and not value.free]  # fmt: skip
    for value, layout in (*read_layouts, *needed.items()):
        if graph.may_change(value) and layout != Layout.identity(value.rank):
            raise ValueError(f"{value.name}: {layout} for a value that a call may write into")
        if value in stored and stored[value] != layout:
            converted.setdefault(value, {})[layout] = None
    available = {v: tuple(x) for v, x in converted.items()}
    solution = Solution(frozenset(), 0.0, 0.0, status, 0)
    return Plan(chosen, stored, available, reads, needed, solution)


def _completed(op: Op, layouts: Layouts) -> list[Layout | None]:
    """The layouts of all tensors of an op. Raises ``ValueError`` if they do not fit."""
    if len(layouts) != len(op.values):
        raise ValueError(f"{op.name}: expected {len(op.values)} layouts, got {len(layouts)}")
    out: list[Layout | None] = []
    for value, layout in zip(op.values, layouts, strict=True):
        if layout is not None and (value is None or value.rank != layout.rank):
            raise ValueError(
                f"{op.name}: {layout} for {'a scalar' if value is None else value.name}"
            )
        out.append(layout if layout is not None or value is None else Layout.identity(value.rank))
    return out
