"""`opinfo.dispatch`: assign a model's operators to backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm

from ..byoc.backend.backend import Backend
from ..byoc.backend.catalog import find, resolve_backends, unusable
from ..byoc.backends.nvidia.libraries.estimated_cost import with_rates
from ..byoc.building.build_library import on_gpu
from ..byoc.calibration.calibration import Calibration, is_of_gpu
from ..byoc.calibration.calibrations import (
    CALIBRATED,
    GPU_BACKENDS,
    ActiveCalibration,
    gpu_in_force,
    in_force,
    known,
    named,
)
from ..byoc.calibration.device_rates import rates_of
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.dispatching.dispatch import dispatch as dispatch_module
from ..byoc.measure import Measure
from ..byoc.prepare.prepare import Preparer
from ..layout.search.constraints import Desired
from .models import as_module

#: The class of TVM's own code if no backends are named: that of all backends.
SHARED = 3
#: Backends that come first whatever they cost: others would store weights of few bits in full, or
#: the matrices of all rows.
FIRST = ("weight_only", "experts")


def dispatch(
    model: Any,
    backends: Sequence[str | Backend] | None = None,
    *,
    wants: Desired | str | None = None,
    priority: Mapping[str, int] | None = None,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
    calibration: Calibration | None = None,
) -> Dispatched:
    """Choose layouts and backends for a model, without building anything.

    Args:
        model: A Relax module, lowered or not, or the path of a file; it is not modified.
        backends: Names or `Backend` objects; by default as in `opinfo.compile`.
        wants: Layouts that operators must have, as for `opinfo.plan`. By default, the layouts that
            backends prefer are candidates.
        priority: Priority classes of backends; see `opinfo.byoc.dispatch`.
        force: Operators to send to one backend; see `opinfo.byoc.dispatch`.
        measure: Choose by measured times; see `opinfo.byoc.Measure`.
        calibration: What kinds of work cost; by default, as in `opinfo.compile`.

    Returns:
        The module, and the backend of each operator or why it stays with TVM.

    Raises:
        FrontendError: The file cannot be read.
        CannotForce: An operator cannot go where `force` says.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid or contradicts another.
    """
    mod = as_module(model, "dispatch")
    preparer = Preparer(mod)
    choice = choose_backends(backends, priority, calibration, few_bits=preparer.few_bits)
    lowered = preparer(choice.backends)
    return dispatch_module(lowered, choice.backends, choice.priority, force=force, measure=measure,
                           layouts="best", desired=wants,
                           calibration=choice.calibration)  # fmt: skip


@dataclass(frozen=True)
class BackendChoice:
    """The backends to choose from, and what decides between them.

    Attributes:
        backends: Names or backends.
        priority: Their classes.
        costs: The calibration that costs come from; None on a GPU that is not calibrated.
        whole: Backends that a build exists for alone, with the operators that it leaves to TVM. A
            choice that amounts to one of these builds is not built.
    """

    backends: Sequence[str | Backend]
    priority: Mapping[str, int] | None
    costs: ActiveCalibration | None
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def calibration(self) -> Calibration | None:
        """The samples that give the cost of matches; None on a GPU, where rates give it."""
        if self.costs is None or is_of_gpu(self.costs.calibration):
            return None
        return self.costs.calibration


def choose_backends(
    backends: Sequence[str | Backend] | None, priority: Mapping[str, int] | None,
    calibration: Calibration | None, target: Any = "llvm", few_bits: bool = False,
) -> BackendChoice:  # fmt: skip
    """Return the backends of a request, with classes and costs.

    If none are named for a CPU, all installed ones whose costs are known and TVM share one class,
    unless ``priority`` says otherwise: an estimate must not compete with measured costs. Those of
    `FIRST` are in a class above. Named backends, and the libraries for a GPU, have classes as in
    `opinfo.byoc.dispatch`, which says why one of them is not available.

    If ``few_bits``, the model has weights of few bits by group. Then backends that take whole
    subgraphs are left out: their threads would wait for work on the cores that its products need.
    """
    parsed = tvm.target.Target(target)
    if on_gpu(parsed):
        return _for_gpu(GPU_BACKENDS if backends is None else backends, priority, calibration)
    if backends is not None and not backends:
        return BackendChoice(backends, priority, None)
    threads = int(parsed.attrs.get("num-cores") or 1)
    costs = in_force(threads) if calibration is None else named(calibration)
    if backends is not None:
        return BackendChoice(backends, priority, costs)
    names = [n for n in installed(parsed) if not (few_bits and find(n).coarse)]
    known_costs = costs.backends
    costs = replace(costs, missing=tuple(n for n in names if n not in known_costs))
    first = [n for n in FIRST if unusable(find(n)) is None]
    if priority is None:
        priority = {"tvm": SHARED, **dict.fromkeys(first, SHARED + 1)}
    return BackendChoice([*(n for n in names if n in known_costs), *first], priority, costs)


def _for_gpu(
    backends: Sequence[str | Backend], priority: Mapping[str, int] | None,
    calibration: Calibration | None,
) -> BackendChoice:  # fmt: skip
    """Return the backends, with costs by the rates of the GPU if it is calibrated."""
    costs = gpu_in_force(calibration)
    if costs is None:
        return BackendChoice(backends, priority, None)
    rated = with_rates(resolve_backends(backends), rates_of(costs.calibration))
    return BackendChoice(rated, priority, costs)


def installed(target: Any = "llvm") -> list[str]:
    """Return the default backends for a target that can run.

    For CPUs, those that opinfo calibrates; for NVIDIA GPUs, the libraries that come with CUDA.
    """
    names = GPU_BACKENDS if on_gpu(tvm.target.Target(target)) else CALIBRATED
    return [n for n in names if known(n) and unusable(find(n)) is None]
