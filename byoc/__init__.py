"""Hand-over to backends: raise `call_tir` to Relax operators, match, convert."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Backend, Code, register
    from .coarse import Coarse
    from .dispatch_plan import DispatchPlan, PlanRefused
    from .force import CannotForce
    from .measure import Excluded, Measure, Measured, MeasureError, Timing, Tracker
    from .mend import Unmet
    from .objective import keeping_chains
    from .offload import Dispatched, dispatch
    from .pattern import Node, Pattern, many, maybe, one
    from .region import Call, Region, Tensor
    from .repeat import replay

_HOMES = {
    "backend": ("Backend", "Code", "register"),
    "coarse": ("Coarse",),
    "dispatch_plan": ("DispatchPlan", "PlanRefused"),
    "force": ("CannotForce",),
    "measure": ("Excluded", "Measure", "Measured", "MeasureError", "Timing", "Tracker"),
    "mend": ("Unmet",),
    "objective": ("keeping_chains",),
    "offload": ("Dispatched", "dispatch"),
    "pattern": ("Node", "Pattern", "many", "maybe", "one"),
    "region": ("Call", "Region", "Tensor"),
    "repeat": ("replay",),
}
__all__ = [
    "Backend",
    "Call",
    "CannotForce",
    "Coarse",
    "Code",
    "DispatchPlan",
    "Dispatched",
    "Excluded",
    "Measure",
    "MeasureError",
    "Measured",
    "Node",
    "Pattern",
    "PlanRefused",
    "Region",
    "Tensor",
    "Timing",
    "Tracker",
    "Unmet",
    "dispatch",
    "keeping_chains",
    "many",
    "maybe",
    "one",
    "register",
    "replay",
]


def __getattr__(name: str) -> Any:
    """What matches and dispatches is imported when it is asked for."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
