"""The ops of a function in each alternative of a plan, for patterns to match.

    conv in NCHW → add in NCHW          conv in NHWC → add in NHWC

The values of a variant are those of the program in one layout. So a reader follows a value in the
layout in which it is written, and no chain contains a conversion.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tvm import relax

from ...analysis.answer.recovered import Recovered
from ...analysis.results.op_info import Refusal
from ...layout.alternatives.alternative import Alternative
from ...layout.apply.conversion import layouts_of
from ...layout.graph.relax_graph import Op, Value
from ...layout.model.layout import Layout
from ...layout.planner import Planner
from ...layout.rewrite.rewrite import ParamAlias
from ...layout.search.function_plan import SearchSpace, layouts_in


class _Constant:
    """A constant in a layout; its elements are moved when they are read."""

    def __init__(self, value: Value, layout: Layout) -> None:
        self.of, self.layout = value, layout

    @cached_property
    def value(self) -> Any:
        return relax.const(self.layout.move(self.of.expr.value.numpy()), self.of.dtype).value


class Variants:
    """All variants of the ops of one function.

    Attributes:
        infos: What each variant computes.
        origins: The op and the alternative of each variant.
        values: The value of each value in each layout.
        given: The variants in the layouts of the program.
        idle: Ops that cost nothing in some layouts: their result is their operand's memory.
        aliases: These ops with the alternatives in which they cost nothing.
    """

    def __init__(self, planner: Planner, space: SearchSpace) -> None:
        self.planner, self.space = planner, space
        self.infos: dict[Op, Recovered] = {}
        self.origins: dict[Op, tuple[Op, Alternative]] = {}
        self.values: dict[tuple[Value, Layout], Value] = {}
        self.given: set[Op] = set()
        self.idle: set[Op] = set()
        self.aliases: set[tuple[Op, Alternative]] = set()
        for op in space.graph.ops:
            for alternative in space.alternatives[op]:
                self.add(op, alternative)

    def add(self, op: Op, alternative: Alternative) -> None:
        """Add the variant of an op in an alternative, if its PrimFunc has a form there."""
        layouts = layouts_in(op, alternative, self.space.specs[op])
        if layouts is None:
            return
        func, shares = op.func, self.space.graph.shares(op)
        if any(layouts_of(layouts)):
            new = self.planner.likely_form(op.func, layouts_of(layouts), shares)
            if isinstance(new, ParamAlias):
                self.idle.add(op)
                self.aliases.add((op, alternative))
            if isinstance(new, (Refusal, ParamAlias)):
                return
            func = new.func
        laid = [None if v is None else self.value(v, x)
                for v, x in zip(op.values, layouts, strict=True)]  # fmt: skip
        count = len(op.inputs)
        outputs = tuple(v for v in laid[count:] if v is not None)
        variant = Op(op.name, func, op.call, tuple(laid[:count]), outputs, op)
        for value in dict.fromkeys(v for v in variant.inputs if v is not None):
            value.uses.append(variant)
        for value in outputs:
            value.makers.append(variant)
        if func is op.func:
            self.given.add(variant)
        self.infos[variant] = self.planner.analyse(func).of(func)
        self.origins[variant] = op, alternative

    def value(self, value: Value, layout: Layout | None) -> Value:
        layout = layout or Layout.identity(value.rank)
        if (value, layout) not in self.values:
            moved = value.constant and not layout.is_identity
            self.values[value, layout] = Value(
                value.name,
                layout.physical(value.shape),
                value.dtype,
                _Constant(value, layout) if moved else value.expr,
                value.constant,
                value.fixed,
                value.weight,
                value.parameter,
                _elsewhere(value),
                vdevice=value.vdevice,
                of=value,
            )
        return self.values[value, layout]


def _elsewhere(value: Value) -> str | None:
    """Why a value is needed besides its reader."""
    return value.pinned or ("read by other operators" if len(value.uses) > 1 else None)
