"""Layout decisions: which layout each value has, and where a conversion is paid for."""

from .apply.cancel import cancel_layout_transforms
from .model.digit import Digit
from .model.layout import Layout
from .plan import Planned, plan_layout
from .report.count import count
from .report.report import Conversions, Report
from .search.op_specs import Implementation

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
