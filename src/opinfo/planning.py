"""`opinfo plan MODEL`: plan the layouts of a model and say what was saved, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm

from .layout.plan import plan_layout
from .layout.report.count import count, located
from .layout.report.plan_report import Conversions, PlanReport, describe, size
from .layout.search.implementations import IMPLEMENTATIONS

if TYPE_CHECKING:
    from rich.table import Table


CONVERSION = ("conversion of", "from", "to", "bytes", "for", "why")


@dataclass(frozen=True)
class ModelPlan:
    """A lowered module, its plan, and the conversions counted in both modules."""

    lowered: Any
    module: Any
    report: PlanReport
    before: Conversions
    after: Conversions

    def summary(self) -> str:
        """One line: what was saved, what is left, how sure that is."""
        saved = self.before.bytes - self.after.bytes
        change = f", {size(abs(saved))} {'less' if saved > 0 else 'more'}" if saved else ""
        return (
            f"layout conversions: {self.before!r} before, {self.after!r} after{change}; "
            f"{self.report.certainty()}"
        )

    def tables(self, explain: bool = False) -> list[Table]:
        """Values in another layout and conversions; to explain also the others, and each op."""
        report = self.report
        values = report.values if explain else report.moved()
        out = [
            table(
                ("value", "type", "layout", "why"),
                [(v.name, describe(v), v.layout.spell(), v.why) for v in values],
            ),
            table(CONVERSION, conversions(report)),
        ]  # fmt: skip
        if explain:
            rows = [(o.name, o.op, o.implementation, o.why) for o in report.ops]
            out.insert(1, table(("op of", "PrimFunc", "implementation", "why"), rows))
        return [t for t in out if t.row_count]

    def to_json(self) -> dict[str, Any]:
        """A value that `json.dumps` takes: the report, and what was counted in the modules."""
        counted = {
            key: {"number": c.number, "bytes": c.bytes}
            for key, c in (("before", self.before), ("after", self.after))
        }
        return {**self.report.to_json(), "counted": counted}

    def html(self, title: str) -> str:
        """The before/after page."""
        from .inspection import inspect
        from .picture import page
        from .picture.dataflow import main_of
        from .render import call

        main = main_of(self.lowered)
        name = next(g.name_hint for g, f in self.lowered.functions_items() if f.same_as(main))
        moving = {var: c.bytes for (func, var), c in located(self.lowered).items() if func == name}
        known = {row.func: call(row.result) for row in inspect(self.lowered).known}  # type: ignore[arg-type]
        return page(title, self.lowered, self.report, self.before, self.after, moving, known)


def conversions(report: PlanReport) -> list[tuple[str, ...]]:
    """A row of `CONVERSION` for each conversion that stays."""
    return [(c.value, c.source.spell(), c.target.spell(), size(c.bytes),
             ", ".join(c.consumers), c.why) for c in report.conversions]  # fmt: skip


def plan_model(
    lowered: tvm.IRModule, desired: Mapping[str, Sequence[str] | str] | str, mode: Any = "tir"
) -> ModelPlan:
    """Plan a module after `LegalizeOps`."""
    planned = plan_layout(lowered, desired=desired, mode=mode)
    return ModelPlan(lowered, planned.module, planned.report, count(lowered), count(planned.module))


def parse_wants(texts: Sequence[str]) -> dict[str, Sequence[str] | str] | str:
    """``conv2d=NHWC`` and ``conv2d=NHWC,OHWI`` as the layouts of each operator's operands.

    A name without an operator is an implementation for all that it has; it comes alone.
    Raises ``ValueError`` for another form, or for an operator that is named twice.

    >>> parse_wants(["conv2d=NHWC,OHWI"])
    {'conv2d': ['NHWC', 'OHWI']}
    """
    if len(texts) == 1 and texts[0] in IMPLEMENTATIONS:
        return texts[0]
    out: dict[str, Sequence[str] | str] = {}
    for text in texts:
        op, _, layouts = text.partition("=")
        if not op or not layouts:
            raise ValueError(f"--want {text!r} is not of the form conv2d=NHWC or conv2d=NHWC,OHWI")
        if op in out:
            raise ValueError(f"--want names {op!r} twice: {out[op]} and {layouts!r}")
        out[op] = layouts if layouts in IMPLEMENTATIONS else layouts.split(",")
    return out


def lines_of(lines: Sequence[str]) -> Table:
    """Lines as a table without a head; a long one goes on below."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        out.add_row(Text(line))
    return out


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, header_style="bold", pad_edge=False)
    for k, title in enumerate(head):
        out.add_column(title, no_wrap=k == 0, overflow="fold")
    for row in rows:
        out.add_row(*map(Text, row))
    return out
