"""Plan the layouts of a module: check, decide with proof, apply, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ..analysis.support.garbage import rare_collections
from ..analysis.support.wording import did_you_mean
from .apply.materialise import materialise
from .graph.checked_module import check_module
from .graph.not_lowered import warn_if_not_lowered
from .model.layout import Layout
from .planner import Mode, Planner
from .report.explain import report
from .report.plan_report import PlanReport
from .rewrite.func_proofs import FuncProofs
from .search.constraints import Desired, LayoutRequest, check, full
from .search.function_plan import OBJECTIVES, Cost
from .search.op_specs import OpSpecs
from .search.replacements import Implementation

#: The modes of `plan_layout`.
MODES = ("graph", "tir")


@dataclass(frozen=True)
class Planned:
    """A module in its planned layouts.

    Attributes:
        module: The module, equivalent to the one that was planned.
        report: The reason for each layout and conversion.
    """

    module: Any
    report: PlanReport


@rare_collections()
def plan_layout(
    mod: Any,
    desired: Desired | str | None = None,
    *,
    mode: Mode = "tir",
    objective: str | Cost = "bytes",
    pins: Mapping[str, str] | None = None,
    implementations: Sequence[Implementation] = (),
    constants: int | None = None,
    seconds: float = 60.0,
    proofs: FuncProofs | None = None,
) -> Planned:
    """Return the module in the cheapest layouts, with each rewrite proved correct.

    Args:
        mod: A module after ``LegalizeOps``; it is not changed. Operators that are not lowered keep
            their layouts; if none is lowered, opinfo warns.
        desired: The layouts that operators must have, by operator. List those of the operands, then
            that of the result (by default that of the first operand): ``{"nn.conv2d": ["NHWC",
            "OHWI"]}``. An empty list keeps an operator unchanged. A string names an implementation,
            for one operator or for all: ``"tvm-nhwc"`` is TIR with the output channel innermost,
            used where that saves more than its conversions cost.
        mode: ``"graph"`` keeps each operator expressible as a Relax operator; ``"tir"`` allows any
            layout.
        objective: ``"bytes"`` or ``"count"`` of conversions, or a function of a value and its
            target layout.
        pins: New layouts of parameters, by name. Callers must pass the parameters in these layouts.
        implementations: PrimFuncs to use where they provably compute an operator.
        constants: The limit in bytes on additional copies of constants in other layouts; None for
            no limit.
        seconds: Time limit of the solver; `PlanReport.status` says whether it was sufficient.
        proofs: What is proved about PrimFuncs already; more is added.

    Returns:
        The module and the report.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An operator, a layout or an option does not exist.
    """
    check_module(mod, "plan_layout")
    warn_if_not_lowered(mod, "plan_layout")
    requests = check_arguments(desired, mode, objective)
    specs = OpSpecs(requests, implementations, proofs=proofs, operators=mode == "graph")
    planner = Planner(mod, specs, mode, _cost(objective), dict(pins or {}), seconds)
    plans = planner.plan_module()
    out = materialise(mod, plans, planner.spec_by_op, planner.rewritten, constants)
    return Planned(out, report(mod, out, planner.parts(plans)))


def check_arguments(
    desired: Desired | str | None, mode: str, objective: str | Cost
) -> dict[str, LayoutRequest]:
    """The desired layouts by full operator name. Raises ``ValueError`` for wrong arguments."""
    if mode not in MODES:
        raise ValueError(f"plan_layout: mode must be 'graph' or 'tir', got {mode!r}"
                         f"{did_you_mean(mode, MODES)}")  # fmt: skip
    _cost(objective)
    return check(desired or {})


def implementation(op: str, func: Any, layouts: Sequence[Layout | str | None]) -> Implementation:
    """A PrimFunc for an operator; layouts may be strings, None leaves one unchanged."""
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"ReplaceOpImpl: expected a tirx.PrimFunc, got {type(func).__name__}")
    if len(layouts) != len(func.params):
        raise ValueError(f"ReplaceOpImpl: expected {len(func.params)} layouts, got {len(layouts)}")
    parsed: list[Layout | None] = []
    for param, layout in zip(func.params, layouts, strict=True):
        buffer = hasattr(param.ty, "shape")
        if layout is None:
            parsed.append(Layout.identity(len(param.ty.shape)) if buffer else None)
        else:
            parsed.append(Layout.parse(layout) if isinstance(layout, str) else layout)
    return Implementation(full(op, "op"), func, tuple(parsed))


def not_replaced(planned: PlanReport, given: Implementation) -> str | None:
    """Why an implementation is used nowhere; None if it is used."""
    if any(op.replaced for op in planned.ops):
        return None
    reason = next((f"{op.op}: {op.note}" for op in planned.ops if op.note), None)
    if reason is not None:
        return reason
    names = ", ".join(sorted({op.op for op in planned.ops})) or "none"
    return f"no PrimFunc of the module is recognised as {given.op}; its PrimFuncs: {names}"


def _cost(objective: str | Cost) -> Cost:
    if callable(objective):
        return objective
    if objective not in OBJECTIVES:
        names = ", ".join(OBJECTIVES)
        raise ValueError(f"plan_layout: objective must be one of {names}, got {objective!r}"
                         f"{did_you_mean(objective, OBJECTIVES)}")  # fmt: skip
    return OBJECTIVES[objective]
