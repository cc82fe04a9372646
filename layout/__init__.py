"""Layout decisions: which layout each value has, and where a conversion is paid for."""

from typing import TYPE_CHECKING

from ..analysis.support.exports import exports

if TYPE_CHECKING:
    from .apply.cancel import cancel_layout_transforms
    from .model.digit import Digit
    from .model.layout import Layout
    from .plan import Planned, plan_layout
    from .report.count import count
    from .report.plan_report import Conversions, PlanReport
    from .search.replacements import Implementation

_HOMES = {
    "apply.cancel": ("cancel_layout_transforms",),
    "model.digit": ("Digit",),
    "model.layout": ("Layout",),
    "plan": ("Planned", "plan_layout"),
    "report.count": ("count",),
    "report.plan_report": ("Conversions", "PlanReport"),
    "search.replacements": ("Implementation",),
}
__all__ = [
    "Conversions",
    "Digit",
    "Implementation",
    "Layout",
    "PlanReport",
    "Planned",
    "cancel_layout_transforms",
    "count",
    "plan_layout",
]

__getattr__ = exports(__name__, _HOMES, {"Report": "PlanReport"})


def __dir__() -> list[str]:
    return sorted(__all__)
