"""`opinfo.plan`: plan the layouts of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis import LayoutNormalised
from ..analysis.support.garbage import rare_collections
from ..analysis.support.progress import stage
from ..analysis.support.warn import warn
from ..layout.plan import plan_layout
from ..layout.report.count import count, located
from ..layout.report.plan_report import Conversions, PlanReport, describe, size
from ..layout.search.constraints import Desired, full
from ..report.layouts import CONVERSION, LAYOUT, conversions, layouts, table
from .inspection import inspect
from .models import as_module
from .prim_funcs import legalize

if TYPE_CHECKING:
    from rich.table import Table

    from ..layout.planner import Mode
    from ..layout.search.function_plan import Cost


@dataclass(frozen=True, repr=False)
class ModelPlan:
    """A lowered module and its planned layouts.

    Attributes:
        lowered: The module after ``LegalizeOps``.
        module: The equivalent module in the planned layouts.
        report: The layouts, with reasons.
        before: The conversions in `lowered`.
        after: The conversions in `module`.
    """

    lowered: Any
    module: Any
    report: PlanReport
    before: Conversions
    after: Conversions

    def summary(self) -> str:
        """Return one line: conversions before and after, and whether the plan is proved optimal."""
        saved = self.before.bytes - self.after.bytes
        change = f", {size(abs(saved))} {'less' if saved > 0 else 'more'}" if saved else ""
        return (
            f"layout conversions: {self.before!r} before, {self.after!r} after{change}; "
            f"{self.report.certainty()}"
        )

    def __repr__(self) -> str:
        return f"ModelPlan({self.summary()})"

    def tables(self, explain: bool = False) -> list[Table]:
        """Return tables of layouts and conversions; with `explain`, of every value and operator."""
        values = table(LAYOUT, layouts(self.report))
        out = [values, table(CONVERSION, conversions(self.report))]
        if explain:
            every = [(v.name, describe(v), v.layout.spell(), v.why) for v in self.report.values]
            rows = [(o.name, o.op, o.implementation, o.why) for o in self.report.ops]
            out[:1] = [table(("value", "type", "layout", "why"), every),
                       table(("op of", "PrimFunc", "implementation", "why"), rows)]  # fmt: skip
        return [t for t in out if t.row_count]

    def to_json(self) -> dict[str, Any]:
        """Return the report and the numbers of conversions as JSON values."""
        counted = {
            key: {"number": totals.number, "bytes": totals.bytes}
            for key, totals in (("before", self.before), ("after", self.after))
        }
        return {**self.report.to_json(), "counted": counted}

    def html(self, path: str | Path | None = None, title: str = "") -> str:
        """Return an HTML page with the graphs before and after.

        Args:
            path: A file to write the page to, too.
            title: The title of the page.

        Raises:
            OSError: The file cannot be written.
        """
        from ..picture import page
        from ..picture.dataflow import main_of
        from ..report.render import call

        stage("writing the page")
        main = main_of(self.lowered)
        name = next(g.name_hint for g, f in self.lowered.functions_items() if f.same_as(main))
        moving = {var: c.bytes for (func, var), c in located(self.lowered).items() if func == name}
        calls = {row.func: call(row.result) for row in inspect(self.lowered).known}  # type: ignore[arg-type]
        text = page(title, self.lowered, self.report, self.before, self.after, moving, calls)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


@rare_collections()
def plan(
    model: Any, wants: Desired | str | None = None, *, mode: Mode = "tir",
    objective: str | Cost = "bytes", pins: Mapping[str, str] | None = None,
) -> ModelPlan:  # fmt: skip
    """Choose the cheapest layout for each value of a model; every rewrite is proved equivalent.

    Args:
        model: A Relax module, lowered or not, or the path of a file; it is not modified.
        wants: The layouts of operands, ``{"conv2d": "NHWC"}`` or ``{"conv2d": ["NCHW8c",
            "OIHW8i8o"]}``, or the name of an implementation, ``"tvm-nhwc"``.
        mode: ``"graph"`` changes layouts only where `RaiseOps` can still raise the operators;
            ``"tir"`` changes them anywhere.
        objective: ``"bytes"`` or ``"count"`` of conversions, or a cost function; see `plan_layout`.
        pins: Fixed layouts of parameters, by name.

    Returns:
        The planned module and the report.

    Raises:
        UserWarning: The model has no operator of a requested name.
        FrontendError: The file cannot be read.
        TypeError: An argument has the wrong type.
        ValueError: An operator, a layout or an option is unknown.
    """
    lowered = legalize(as_module(model, "plan"))
    stage("planning layouts")
    planned = plan_layout(lowered, wants, mode=mode, objective=objective, pins=pins)
    if isinstance(wants, Mapping) and not planned.report.moved():
        _report_absent(lowered, wants)
    return ModelPlan(lowered, planned.module, planned.report, count(lowered), count(planned.module))


def _report_absent(lowered: Any, wants: Desired) -> None:
    """Warn of requests for operators that the model does not have."""
    present = {_operator(row.result) for row in inspect(lowered).known}
    for name in wants:
        if full(name, "requested layouts") not in present:
            warn(f"requested layouts: the model has no {name}; see `opinfo inspect`")


def _operator(answer: Any) -> str:
    """The name of an operator, which may be over logical buffers."""
    return str(answer.logical.name if isinstance(answer, LayoutNormalised) else answer.name)
