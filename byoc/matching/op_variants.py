"""The ops of a function in each way that a plan may have them: what patterns are matched on.

    conv in NCHW → add in NCHW          conv in NHWC → add in NHWC

A variant's values are those of the program in one layout, so that what reads a value is followed
in the layout that it is made in: along a chain nothing is converted.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tvm import relax

from ...analysis.answer.recovered import Recovered
from ...analysis.results.op_info import Refusal
from ...layout.apply.conversion import layouts_of
from ...layout.graph.relax_graph import Op, Value
from ...layout.model.layout import Layout
from ...layout.planner import Planner
from ...layout.rewrite.rewrite import Still
from ...layout.search.alternatives import Choice
from ...layout.search.decide import Space, layouts_in


class _Constant:
    """A constant in a layout, moved when somebody asks for its elements."""

    def __init__(self, v: Value, layout: Layout) -> None:
        self.of, self.layout = v, layout

    @cached_property
    def value(self) -> Any:
        return relax.const(self.layout.move(self.of.expr.value.numpy()), self.of.dtype).value


class Variants:
    """All of them of one function; ``ways`` says what each op of it is.

    Ops of ``idle`` need not be done at all in some layouts: memory is what they make of it.
    """

    def __init__(self, planner: Planner, space: Space) -> None:
        self.planner, self.space = planner, space
        self.infos: dict[Op, Recovered] = {}
        self.ways: dict[Op, tuple[Op, Choice]] = {}
        self.values: dict[tuple[Value, Layout], Value] = {}
        self.idle: set[Op] = set()
        for op in space.graph.ops:
            for way in space.ways[op]:
                self.add(op, way)

    def add(self, op: Op, way: Choice) -> None:
        """An op in a way, if it is known what it computes there."""
        layouts = layouts_in(op, way, self.space.kinds[op])
        if layouts is None:
            return
        func, shares = op.func, self.space.graph.shares(op)
        if any(layouts_of(layouts)):
            new = self.planner.tried(op.func, layouts_of(layouts), shares)
            if isinstance(new, Still):
                self.idle.add(op)
            if isinstance(new, (Refusal, Still)):
                return
            func = new.func
        laid = [None if v is None else self.value(v, x)
                for v, x in zip(op.values, layouts, strict=True)]  # fmt: skip
        count = len(op.inputs)
        outputs = tuple(v for v in laid[count:] if v is not None)
        made = Op(op.name, func, op.call, tuple(laid[:count]), outputs, op)
        for v in dict.fromkeys(v for v in made.inputs if v is not None):
            v.uses.append(made)
        for v in outputs:
            v.makers.append(made)
        self.infos[made] = self.planner.analyse(func).of(func)
        self.ways[made] = op, way

    def value(self, v: Value, layout: Layout | None) -> Value:
        layout = layout or Layout.identity(v.rank)
        if (v, layout) not in self.values:
            moved = v.constant and not layout.is_identity
            self.values[v, layout] = Value(
                v.name, layout.physical(v.shape), v.dtype,
                _Constant(v, layout) if moved else v.expr,
                v.constant, v.fixed, v.weight, v.parameter, _elsewhere(v), vdevice=v.vdevice, of=v,
            )  # fmt: skip
        return self.values[v, layout]


def _elsewhere(v: Value) -> str | None:
    """Why a value must be there beside its reader."""
    return v.pinned or ("read by other operators" if len(v.uses) > 1 else None)
