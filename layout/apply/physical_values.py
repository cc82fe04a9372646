"""The values of a function in the layouts in which they are available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from ...analysis.support.origin import with_span
from ..graph.relax_graph import Graph, Value
from ..model.layout import Layout
from ..search.function_plan import Plan
from .constant_copies import ConstantCopies
from .conversion import LayoutConversion, converted
from .reads import Reads


class PhysicalValues:
    """Expressions of values by layout, and the conversions that make them.

    Attributes:
        at: The expressions of each value, by layout.
        block: The number of the block that is rewritten; None for parameters.
        span: The source span of the binding that is rewritten.
    """

    def __init__(self, budget: int | None) -> None:
        self._constants = ConstantCopies(budget)
        self._copies: dict[LayoutConversion, Any] = {}

    def start(self, builder: Any, func: Any, graph: Graph, plan: Plan) -> None:
        """Begin a function, whose bindings ``builder`` gets; no value is available."""
        self._builder = builder
        self.at: dict[Value, dict[Layout, Any]] = {}
        self.block: int | None = None
        self.span: Any = None
        self._plan = plan
        self._reads = Reads(func, graph, plan)
        self._constants.note(graph, plan)

    def enter(self, var: Any) -> None:
        """Go to the block that defines a variable."""
        self.block = self._reads.block_of(var)

    def record(self, value: Value, layout: Layout, expr: Any, like: Any) -> None:
        """Record an available value, and convert it to the other layouts that are read."""
        at = self.at.setdefault(value, {})
        local = isinstance(expr, relax.DataflowVar) and self.leaves(value, layout, like)
        at[layout] = self.emit(expr, like, True) if local else expr
        moved = self._plan.converted.get(value, ())
        for target in sorted(self._reads.layouts(value), key=lambda x: x not in moved):
            if target not in at:
                source = next((x for x in at if value.order(x) == value.order(target)), layout)
                step = LayoutConversion(value.shape, value.dtype, source, target)
                new = converted(at[source], step, self._adder(step))
                at[target] = self.emit(new, like, self.leaves(value, target, like))

    def leaves(self, value: Value, layout: Layout, like: Any) -> bool:
        """Whether a value in a layout is used outside the block that produces it."""
        if self._plan.needed.get(value) == layout and not isinstance(like, relax.DataflowVar):
            return True
        return self._reads.leave(value, layout, self.block)

    def _adder(self, step: LayoutConversion) -> Callable[[Any, str], Any]:
        """A function that adds the PrimFunc of a conversion to the module, once."""

        def once(func: Any, name: str) -> Any:
            if step not in self._copies:
                self._copies[step] = self._builder.add_func(func, name)
            return self._copies[step]

        return once

    def emit(self, expr: Any, like: Any, out: bool) -> Any:
        """Emit a binding; with ``out``, one that other blocks see."""
        if out and self._builder.current_block_is_dataflow():
            return self._builder.emit_output(with_span(expr, self.span), like.name)
        return self._builder.emit(with_span(expr, self.span), like.name)

    def operand(self, value: Value, layout: Layout | None) -> Any:
        """A value as an operand in a layout; None is its own. A constant may be converted here."""
        layout = layout or Layout.identity(value.rank)
        if not value.constant:
            return self.at[value][layout]
        if layout.is_identity:
            return value.expr
        copy = self._constants.get(value, layout)
        if copy is not None:
            return copy
        step = LayoutConversion(value.shape, value.dtype, Layout.identity(value.rank), layout)
        return self._builder.emit(converted(value.expr, step, self._adder(step)), "const")
