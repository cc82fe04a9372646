"""The page of a layout plan: graphs before and after, conversions, reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from ..layout.report.plan_report import (
    Conversion,
    Conversions,
    OpChoice,
    PlanReport,
    ValueChoice,
    size,
)
from .dataflow import INPUT, OUTPUT, GraphBinding, dataflow, main_of
from .template import Card, filled, graph, node


def page(
    title: str,
    mod: tvm.IRModule,
    report: PlanReport,
    before: Conversions,
    after: Conversions,
    moving: Mapping[str, int],
    operators: Mapping[str, str],
) -> str:
    """Return the page as HTML.

    Args:
        title: The title of the page.
        mod: The module before planning.
        report: The report of the plan.
        before: The conversions before planning.
        after: The conversions after planning.
        moving: The bytes of bindings that are conversions, by variable.
        operators: The operator of each PrimFunc, formatted as a call.
    """
    drawing = _Drawing(dataflow(main_of(mod)), report, moving, operators)
    titles = {"before": ("Before: conversions", repr(before)),
              "after": ("After: conversions", repr(after))}  # fmt: skip
    edges = {"before": drawing.before, "after": drawing.after}
    data = graph(drawing.nodes, drawing.starts, edges, titles)
    return filled(title, "layout plan", _cards(report, before, after), data, "")


def _cards(report: PlanReport, before: Conversions, after: Conversions) -> list[Card]:
    saved = before.bytes - after.bytes
    plan = f"cost {report.objective:,.0f}"
    if report.status != "optimal":
        plan += f"; no plan costs less than {report.bound:,.0f}"
    return [
        Card("Conversions before", str(before.number), size(before.bytes)),
        Card("Conversions after", str(after.number), size(after.bytes)),
        Card("Bytes converted", f"{size(abs(saved))} {'less' if saved >= 0 else 'more'}",
             "of activations, in each run", "good" if saved > 0 else "bad" if saved < 0 else ""),
        Card("Values in another layout", f"{len(report.moved())} of {len(report.values)}"),
        Card("Plan", report.status, plan),
    ]  # fmt: skip


@dataclass(frozen=True)
class _Inserted:
    """A conversion that the plan inserts after a value."""

    conversion: Conversion
    readers: frozenset[str]


class _Drawing:
    """Boxes in program order, indices ``starts`` of the module's own, and edges of both graphs."""

    def __init__(
        self,
        flow: Sequence[GraphBinding],
        report: PlanReport,
        moving: Mapping[str, int],
        operators: Mapping[str, str],
    ) -> None:
        self.flow, self.moving, self.operators = flow, moving, operators
        self.values: dict[str, ValueChoice] = {v.name: v for v in report.values}
        self.ops: dict[str, OpChoice] = {o.name: o for o in report.ops}
        self.stays: dict[str, Conversion] = {}
        self.behind: dict[str, list[_Inserted]] = defaultdict(list)
        self._sort(report.conversions)
        self.nodes: list[dict[str, Any]] = []
        self.starts: list[int] = []
        self.before: list[tuple[int, int]] = []
        self.after: list[tuple[int, int]] = []
        self._draw()

    def _sort(self, conversions: Sequence[Conversion]) -> None:
        """Separate conversions that the model keeps from inserted ones."""
        moving = {n.gives[0]: n for n in self.flow if n.name in self.moving}
        for conversion in conversions:
            reader = moving.get(conversion.consumers[0]) if len(conversion.consumers) == 1 else None
            if (
                reader is not None
                and conversion.value in reader.reads
                and reader.name not in self.stays
            ):
                self.stays[reader.name] = conversion
            else:
                self.behind[conversion.value].append(
                    _Inserted(conversion, frozenset(conversion.consumers or (OUTPUT,)))
                )

    def _draw(self) -> None:
        place: dict[str, int] = {}
        converted: dict[tuple[str, str], int] = {}
        for binding in self.flow:
            here = self._add(self._op(binding))
            self.starts.append(here)
            for value in binding.reads:
                self.before.append((place[value], here))
                reader = next(
                    (g for g in (*binding.gives, binding.name) if (value, g) in converted), ""
                )
                source = converted.get((value, reader), place[value])
                self.after.append((source, here))
            for value in binding.gives:
                place[value] = here
                for inserted in self.behind.get(value, ()):
                    turned = self._add(_conversion(inserted.conversion, binding))
                    self.after.append((here, turned))
                    converted.update({(value, r): turned for r in inserted.readers})

    def _add(self, box: dict[str, Any]) -> int:
        self.nodes.append(box)
        return len(self.nodes) - 1

    def _op(self, binding: GraphBinding) -> dict[str, Any]:
        first = binding.gives[0] if binding.gives else ""
        value, op, stays = self.values.get(first), self.ops.get(first), self.stays.get(binding.name)
        moved, call = self.moving.get(binding.name, 0), self.operators.get(binding.op, "")
        stored = value.why if value else ""
        layout = value.layout.spell() if value and not value.layout.is_identity else ""
        facts = [
            ("model's node", binding.node), ("value", binding.name), ("type", binding.type),
            ("operator", call or binding.op),
            ("layout", value.layout.spell() if value else ""), ("reason of the layout", stored),
            ("implementation", op.implementation if op else ""),
            ("reason of the implementation", op.why if op and op.why not in stored else ""),
            ("moved before", size(moved) if moved else ""),
            ("still moves", f"{size(stays.bytes)}: {stays.why}" if stays else ""),
            ("saved", f"{size(moved)}: it is now a view" if moved and not stays else ""),
        ]  # fmt: skip
        end = binding.op in (INPUT, OUTPUT)
        operator = (call.partition("(")[0] or binding.op).removeprefix("relax.")
        label = binding.name if binding.op == INPUT else operator
        return node(
            label,
            sub=binding.type if end else binding.node or binding.type,
            kind="end" if end else "op",
            name=binding.name,
            node=binding.node,
            key=layout,
            before=moved,
            after=stays.bytes if stays else 0,
            facts=facts,
        )


def _conversion(conversion: Conversion, source: GraphBinding) -> dict[str, Any]:
    change = f"{conversion.source.spell()} → {conversion.target.spell()}"
    facts = [
        ("converts", conversion.value),
        ("model's node", source.node),
        ("moves", size(conversion.bytes)),
        ("why", conversion.why),
        ("for", ", ".join(conversion.consumers) or OUTPUT),
    ]
    key = "" if conversion.target.is_identity else conversion.target.spell()
    return node(
        change,
        sub=f"conversion of {conversion.value}, {size(conversion.bytes)}",
        kind="new",
        name=conversion.value,
        node=source.node,
        key=key,
        after=conversion.bytes,
        facts=facts,
    )
