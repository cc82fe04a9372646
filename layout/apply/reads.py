"""Where the values of a function are read, and in which layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ...analysis.lifting.tir.node import NodeDict
from ..graph.relax_graph import Graph, Op, Value
from ..model.layout import Layout
from ..search.function_plan import Plan


class Reads:
    """The reads of a Relax function by its ops and, of what it needs, by all else."""

    def __init__(self, func: Any, graph: Graph, plan: Plan) -> None:
        self._plan = plan
        self._blocks = NodeDict[int]()
        _number_blocks(func.body, self._blocks)
        self._block_of = {op: self._blocks.get(var) for var, op in graph.by_var.items()}
        self._layouts = _read_layouts(graph, plan)

    def block_of(self, var: Any) -> int | None:
        """The number of the block that defines a variable; None for a parameter."""
        return self._blocks.get(var)

    def layouts(self, value: Value) -> Sequence[Layout]:
        """The layouts in which a value is read."""
        return self._layouts.get(value, ())

    def leave(self, value: Value, layout: Layout, block: int | None) -> bool:
        """Whether an op outside of a block reads a value in a layout."""
        readers = (op for op in value.uses if layout in _layouts_read(self._plan, op, value))
        return any(self._block_of[op] != block for op in readers)


def _read_layouts(graph: Graph, plan: Plan) -> dict[Value, list[Layout]]:
    out: dict[Value, list[Layout]] = {v: [x] for v, x in plan.needed.items()}
    for op in graph.ops:
        for value in dict.fromkeys(op.inputs):
            if value is not None and not value.constant:
                layouts = out.setdefault(value, [])
                layouts += [x for x in _layouts_read(plan, op, value) if x not in layouts]
    return out


def _layouts_read(plan: Plan, op: Op, value: Value) -> list[Layout]:
    """The layouts in which an op reads a value."""
    reads = plan.reads[op]
    layouts = (
        reads.get(k) or Layout.identity(value.rank)
        for k, operand in enumerate(op.inputs)
        if operand is value
    )
    return list(dict.fromkeys(layouts))


def _number_blocks(body: Any, blocks: NodeDict[int]) -> None:
    """Map each variable to the number of the block that defines it."""
    for block in getattr(body, "blocks", ()):
        number = len(blocks.items())
        for binding in block.bindings:
            blocks[binding.var] = number
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if isinstance(value, relax.If):
                _number_blocks(value.true_branch, blocks)
                _number_blocks(value.false_branch, blocks)
