"""The page of a plan: one file that needs no server and no network."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
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
from .dataflow import INPUT, OUTPUT, Node, dataflow, main_of
from .layered import places


def page(
    title: str,
    mod: tvm.IRModule,
    report: PlanReport,
    before: Conversions,
    after: Conversions,
    moving: Mapping[str, int],
    operators: Mapping[str, str],
) -> str:
    """The page as HTML.

    ``mod`` is the module that was planned; ``moving`` has the bytes of its bindings that are
    conversions, ``operators`` the operator of a PrimFunc, by name. ``before`` and ``after`` are
    counted in both modules.
    """
    drawing = _Drawing(dataflow(main_of(mod)), report, moving, operators)
    data = {
        "nodes": drawing.nodes,
        "before": drawing.before,
        "after": drawing.after,
        "layouts": _layouts(report),
    }
    text = (files(__package__) / "page.html").read_text(encoding="utf-8")
    told = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    for key, value in {
        "TITLE": escape(title),
        "SUMMARY": escape(_summary(report)),
        "BEFORE": escape(repr(before)),
        "AFTER": escape(repr(after)),
        "DATA": told,
    }.items():
        text = text.replace(f"@{key}@", value)
    return text


def _summary(report: PlanReport) -> str:
    relaid = f"{len(report.moved())} of {len(report.values)} values in another layout"
    return f"{relaid}; cost {report.objective:g}, no plan below {report.bound:g} ({report.status})"


def _layouts(report: PlanReport) -> list[str]:
    """Those that values are moved to, from the most frequent."""
    found: dict[str, int] = defaultdict(int)
    for v in report.moved():
        found[v.layout.spell()] += 1
    return sorted(found, key=lambda text: (-found[text], text))


@dataclass(frozen=True)
class _Inserted:
    """A conversion that the plan puts behind a value."""

    conversion: Conversion
    readers: frozenset[str]


class _Drawing:
    """Nodes with their places, and the edges before and after, as plain values for JSON."""

    def __init__(
        self,
        flow: Sequence[Node],
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
        self.before: list[tuple[int, int]] = []
        self.after: list[tuple[int, int]] = []
        self._draw()

    def _sort(self, conversions: Sequence[Conversion]) -> None:
        """Conversions that were in the model and stay, and those that are put in."""
        own = {n.gives[0]: n for n in self.flow if n.name in self.moving}
        for c in conversions:
            node = own.get(c.consumers[0]) if len(c.consumers) == 1 else None
            if node is not None and c.value in node.reads and node.name not in self.stays:
                self.stays[node.name] = c
            else:
                self.behind[c.value].append(_Inserted(c, frozenset(c.consumers or (OUTPUT,))))

    def _draw(self) -> None:
        place: dict[str, int] = {}
        converted: dict[tuple[str, str], int] = {}
        for node in self.flow:
            here = self._add(self._op(node))
            for value in node.reads:
                self.before.append((place[value], here))
                reader = next((g for g in (*node.gives, node.name) if (value, g) in converted), "")
                source = converted.get((value, reader), place[value])
                self.after.append((source, here))
            for value in node.gives:
                place[value] = here
                for inserted in self.behind.get(value, ()):
                    turned = self._add(self._conversion(inserted.conversion))
                    self.after.append((here, turned))
                    converted.update({(value, r): turned for r in inserted.readers})
        both = sorted({*self.before, *self.after})
        for node_data, at in zip(self.nodes, places(len(self.nodes), both), strict=True):
            node_data["x"], node_data["y"] = round(at.x, 2), at.layer

    def _add(self, node: dict[str, Any]) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _op(self, node: Node) -> dict[str, Any]:
        first = node.gives[0] if node.gives else ""
        value, op, stays = self.values.get(first), self.ops.get(first), self.stays.get(node.name)
        bytes_before = self.moving.get(node.name, 0)
        told = value.why if value else ""
        why = [
            ("why stored so", told),
            ("why computed so", op.why if op and op.why not in told else ""),
        ]
        if stays is not None:
            why.append(("it still moves", stays.why))
        elif bytes_before:
            why.append(("saved", f"it moved {size(bytes_before)}; now it is the same memory"))
        label = node.name if node.op == INPUT else node.op
        return {
            "label": label,
            "kind": node.op if node.op in (INPUT, OUTPUT) else "op",
            "name": node.name,
            "type": node.type,
            "op": self.operators.get(node.op, ""),
            "layout": value.layout.spell() if value else "",
            "same": value.layout.is_identity if value else True,
            "way": op.implementation if op else "",
            "before": bytes_before,
            "after": stays.bytes if stays else 0,
            "why": [list(w) for w in why if w[1]],
        }

    def _conversion(self, c: Conversion) -> dict[str, Any]:
        return {
            "label": f"{c.source.spell()} → {c.target.spell()}",
            "kind": "new",
            "name": c.value,
            "type": size(c.bytes),
            "op": "relax.layout_transform",
            "layout": c.target.spell(),
            "same": c.target.is_identity,
            "way": "",
            "before": 0,
            "after": c.bytes,
            "why": [["why", c.why], ["for", ", ".join(c.consumers) or OUTPUT]],
        }
