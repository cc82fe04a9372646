"""Layout decisions: which layout each value has, and where a conversion is paid for."""

from .cancel import cancel_layout_transforms
from .count import count
from .digit import Digit
from .kinds import Implementation
from .layout import Layout
from .plan import Planned, plan_layout
from .report import Conversions, Report

__all__ = [
    "Conversions",
    "Digit",
    "Implementation",
    "Layout",
    "Planned",
    "Report",
    "cancel_layout_transforms",
    "count",
    "plan_layout",
]
