"""Hand-over to backends: raise `call_tir` to Relax operators, match, convert."""

from typing import TYPE_CHECKING

from ..analysis.support.exports import exports

if TYPE_CHECKING:
    from ..layout.graph.relax_graph import Value
    from .backend.backend import Backend, Code
    from .backend.catalog import register
    from .backend.info import BackendInfo, list_backends
    from .backend.region import Call, Region, Tensor
    from .calibration.calibration import (
        CalibratedMachine,
        Calibration,
        CalibrationRefused,
        Sample,
    )
    from .calibration.cost_model import Estimate
    from .calibration.workload import Workload
    from .codegen.abi import ABI
    from .dispatching.choice.objective import keeping_chains
    from .dispatching.choice.plan_file import DispatchPlan, PlanRefused
    from .dispatching.dispatch import Dispatched, dispatch
    from .dispatching.replay_dispatch import replay
    from .matching.force import CannotForce
    from .measure import Excluded, Measure, Measured, MeasureError, Timing, Tracker
    from .patterns.conditions import attribute, constant, dtype
    from .patterns.pattern import Node, Pattern, many, maybe, one
    from .patterns.subgraphs import Coarse
    from .patterns.suggest import Unmet

_HOMES = {
    "backend.backend": ("Backend", "Code"),
    "backend.catalog": ("register",),
    "backend.info": ("BackendInfo", "list_backends"),
    "calibration.calibration": (
        "CalibratedMachine",
        "Calibration",
        "CalibrationRefused",
        "Sample",
    ),
    "calibration.cost_model": ("Estimate",),
    "calibration.workload": ("Workload",),
    "codegen.abi": ("ABI",),
    "patterns.conditions": ("attribute", "constant", "dtype"),
    ".layout.graph.relax_graph": ("Value",),
    "patterns.subgraphs": ("Coarse",),
    "dispatching.choice.plan_file": ("DispatchPlan", "PlanRefused"),
    "matching.force": ("CannotForce",),
    "measure": ("Excluded", "Measure", "Measured", "MeasureError", "Timing", "Tracker"),
    "patterns.suggest": ("Unmet",),
    "dispatching.choice.objective": ("keeping_chains",),
    "dispatching.dispatch": ("Dispatched", "dispatch"),
    "patterns.pattern": ("Node", "Pattern", "many", "maybe", "one"),
    "backend.region": ("Call", "Region", "Tensor"),
    "dispatching.replay_dispatch": ("replay",),
}
__all__ = [
    "ABI",
    "Backend",
    "BackendInfo",
    "CalibratedMachine",
    "Calibration",
    "CalibrationRefused",
    "Call",
    "CannotForce",
    "Coarse",
    "Code",
    "DispatchPlan",
    "Dispatched",
    "Estimate",
    "Excluded",
    "Measure",
    "MeasureError",
    "Measured",
    "Node",
    "Pattern",
    "PlanRefused",
    "Region",
    "Sample",
    "Tensor",
    "Timing",
    "Tracker",
    "Unmet",
    "Value",
    "Workload",
    "attribute",
    "constant",
    "dispatch",
    "dtype",
    "keeping_chains",
    "list_backends",
    "many",
    "maybe",
    "one",
    "register",
    "replay",
]


__getattr__ = exports(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
