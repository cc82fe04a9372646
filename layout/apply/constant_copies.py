"""Constants that are converted at compile time."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...analysis.support.tvm_compat import array_of
from ..alternatives.local_alternatives import weight
from ..graph.relax_graph import Graph, Value
from ..model.layout import Layout
from ..search.function_plan import Plan


class ConstantCopies:
    """The constants of a module in the layouts of its plans.

    A constant that is read in several layouts gets a copy for each, as long as these copies take at
    most ``budget`` bytes in all; without a limit if it is None.
    """

    def __init__(self, budget: int | None) -> None:
        self._budget, self._copied = budget, 0
        self._layouts: dict[int, set[Layout]] = {}
        self._copies: dict[tuple[int, Layout], Any] = {}

    def note(self, graph: Graph, plan: Plan) -> None:
        """Record the layouts in which a function reads its constants."""
        for op in graph.ops:
            for k, value in enumerate(op.inputs):
                if value is not None and value.constant:
                    layout = plan.reads[op].get(k) or Layout.identity(value.rank)
                    self._layouts.setdefault(value.expr.__chandle__(), set()).add(layout)

    def get(self, value: Value, layout: Layout) -> Any:
        """The constant in a layout; None if the budget does not allow one more copy."""
        key = (value.expr.__chandle__(), layout)
        if key not in self._copies:
            size = weight(value) if len(self._layouts[key[0]]) > 1 else 0
            if self._budget is not None and self._copied + size > self._budget:
                return None
            self._copied += size
            moved = layout.move(array_of(value.expr).numpy())
            self._copies[key] = relax.const(moved, value.dtype)
        return self._copies[key]
