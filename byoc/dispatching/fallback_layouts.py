"""What stays with TVM, as its code generation does it best: `tvm-nhwc` where that pays.

Before: x → conv2d (NCHW) → relu → call of a backend
After:  x → layout_transform → conv2d (NHWC, the output channel innermost) → relu
          → layout_transform → call of a backend

Values that a backend reads or writes stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tvm

from ...layout.plan import plan_layout
from ...layout.report.plan_report import Conversions, PlanReport
from ...layout.search.constraints import Desired, check
from ...layout.search.implementations import TVM_NHWC

if TYPE_CHECKING:
    from .dispatch import Dispatched


def in_own_layouts(done: Dispatched, desired: Desired | str | None, target: Any) -> Dispatched:
    """The dispatched module with the implementation for what is left of its operators.

    What is ``desired`` of an operator is not changed. It is for CPUs.
    """
    if isinstance(desired, str) or tvm.target.Target(target).kind.name != "llvm":
        return done
    asked = check(desired or {})
    left = {o.op for o in done.left} & set(TVM_NHWC.layouts) - set(asked)
    if not left:
        return done
    wanted = dict.fromkeys(sorted(left), TVM_NHWC.name)
    planned = plan_layout(done.module, wanted)
    return replace(done, module=planned.module, report=_joined(done.report, planned.report))


def _joined(report: PlanReport | None, more: PlanReport) -> PlanReport | None:
    """A report in which the conversions that another plan adds are left too."""
    if report is None:
        return None

    def left() -> Conversions:
        old, before, after = report.after, more.before, more.after
        return Conversions(old.number + after.number - before.number,
                           old.bytes + after.bytes - before.bytes)  # fmt: skip

    return replace(report, left=left)
