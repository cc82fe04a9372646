"""Layout decisions: which layout each value has, and where a conversion is paid for."""

from .cancel import cancel_layout_transforms
from .kinds import Implementation
from .layout import Digit, Layout
from .plan import Planned, plan_layout
from .report import Report

__all__ = [
    "Digit",
    "Implementation",
    "Layout",
    "Planned",
    "Report",
    "cancel_layout_transforms",
    "plan_layout",
]
