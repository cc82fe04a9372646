"""The checked arguments of a dispatch, with the recovered module."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from ...analysis.support.progress import stage
from ...analysis.support.wording import did_you_mean
from ...layout.rewrite.func_proofs import FuncProofs
from ...layout.search.constraints import Desired
from ..backend.backend import Backend
from ..backend.catalog import resolve_backends, unusable
from ..backend.guarded_calls import guarded
from ..calibration.calibrated_costing import CalibratedCosting, priced
from ..calibration.calibration import Calibration
from ..calibration.cost_model import CostModel
from ..costing.costing_of import costing_of
from ..matching.force import CannotForce, forced_ops
from ..matching.lowered import Lowered, read
from ..matching.match_rules import MatchRules
from ..patterns.failure import Failure
from .choice.with_layouts import ModuleInLayouts, in_best_layouts

if TYPE_CHECKING:
    from ..measure import Measure
    from ..measure.costs import Costing


@dataclass(frozen=True)
class DispatchOptions:
    """How to dispatch: the optional arguments of `dispatch`."""

    priority: Mapping[str, int] | None = None
    force: Mapping[str, str] | None = None
    measure: Measure | None = None
    layouts: Literal["given", "best"] = "given"
    desired: Desired | str | None = None
    calibration: Calibration | None = None
    proofs: FuncProofs | None = None

    @cached_property
    def model(self) -> CostModel | None:
        """The cost model of the calibration."""
        return None if self.calibration is None else CostModel(self.calibration)


@dataclass(frozen=True)
class DispatchRequest:
    """A module, the backends that may take its operators, and the rules for doing so.

    Attributes:
        original: The module that the caller passed.
        lowered: The same module in planned layouts; the original if none are planned.
        rules: Which matches may be chosen.
        backends: The available backends.
        layouts: The planned layouts.
        costing: Costs matches by measuring or by a calibration; None to estimate costs by backends
            and FLOPs.
        failures: The failures of backends so far that cost no region.
        model: The cost model of the calibration.
    """

    original: Lowered
    lowered: Lowered
    rules: MatchRules
    backends: Sequence[Backend]
    layouts: ModuleInLayouts | None = None
    costing: Costing | CalibratedCosting | None = None
    failures: list[Failure] = field(default_factory=list)
    model: CostModel | None = None


def read_request(
    mod: Any, backends: Sequence[str | Backend], options: DispatchOptions
) -> DispatchRequest:
    """Check the arguments of a dispatch, recover the operators and find the usable backends."""
    priority, force, measure = options.priority or {}, options.force or {}, options.measure
    model = options.model
    if options.layouts not in ("given", "best"):
        raise ValueError(f"dispatch: layouts must be 'given' or 'best', got {options.layouts!r}")
    if options.desired and options.layouts == "given":
        raise ValueError("dispatch: desired requires layouts='best'")
    _check_mapping("priority", options.priority, int, "a number")
    _check_mapping("force", options.force, str, "BACKEND or BACKEND.PATTERN")
    failures: list[Failure] = []
    named = list({b.name: guarded(priced(b, model), failures)
                  for b in resolve_backends(backends)}.values())  # fmt: skip
    classes = {b.name: priority.get(b.name, 3) for b in named}
    if unknown := sorted(set(priority) - {*classes, "tvm"}):
        raise ValueError(f"priority: {', '.join(unknown)} is not a requested backend"
                         f"{did_you_mean(unknown[0], {*classes, 'tvm'})}")  # fmt: skip
    lowered = read(mod, "dispatch", options.proofs)
    forced = forced_ops(lowered.ops, lowered.infos, force, named)
    needed = {f.backend for f in forced.values()}
    tvm_class = priority.get("tvm", 3 if measure is not None and not priority else 1)
    usable = [b for b in named if (classes[b.name] >= tvm_class or b.name in needed)
              and _usable(b, needed, failures)]  # fmt: skip
    below = {b.name for b in usable if classes[b.name] < tvm_class}
    if measure is not None or model is not None:
        classes["tvm"] = tvm_class
    rules = MatchRules(classes, forced, below)
    return DispatchRequest(lowered, lowered, rules, usable,
                           costing=_costing(lowered, usable, options, rules),
                           failures=failures, model=model)  # fmt: skip


def plan_layouts(request: DispatchRequest, options: DispatchOptions) -> DispatchRequest:
    """The request for the module in the layouts that are best with its backends."""
    stage("planning layouts")
    original, backends = request.original, request.backends
    planned = in_best_layouts(original, backends, request.rules, options.desired, options.measure,
                              request.model)  # fmt: skip
    lowered = read(planned.module, "dispatch", original.proofs)
    forced = forced_ops(lowered.ops, lowered.infos, options.force or {}, backends)
    rules = replace(request.rules, forced=forced)
    costing = _costing(lowered, backends, options, rules)
    return replace(request, lowered=lowered, rules=rules, layouts=planned, costing=costing)


def measured_request(
    asked: DispatchRequest, laid: DispatchRequest, options: DispatchOptions
) -> DispatchRequest:
    """The request with measured costs, in the layouts of the same request with expected ones."""
    rules = replace(asked.rules, forced=laid.rules.forced)
    costing = _costing(laid.lowered, asked.backends, options, rules)
    return replace(asked, lowered=laid.lowered, layouts=laid.layouts, rules=rules, costing=costing)


def _check_mapping(name: str, value: Any, kind: type, expected: str) -> None:
    """Raises ``TypeError`` unless a value is None or maps to values of a type."""
    if not isinstance(value, (Mapping, NoneType)):
        raise TypeError(f"{name}: expected a mapping, got {value!r}")
    for key, item in (value or {}).items():
        if not isinstance(item, kind):
            raise TypeError(f"{name}[{key!r}]: expected {expected}, got {item!r}")


def _usable(backend: Backend, needed: Collection[str], failures: list[Failure]) -> bool:
    """Whether a backend is available; adds to `failures` if it is not."""
    reason = unusable(backend)
    if reason is not None and backend.name in needed:
        raise CannotForce(f"{backend.name} is not available: {reason}")
    if reason is not None:
        failures.append(Failure(backend.name, "available", reason))
    return reason is None


def _costing(
    lowered: Lowered, backends: Sequence[Backend], options: DispatchOptions, rules: MatchRules
) -> Costing | CalibratedCosting | None:
    return costing_of(lowered.ops, lowered.infos, backends, rules, options.measure, options.model)
