"""TVM fallback layouts: what stays with TVM runs as `tvm-nhwc` if that saves time.

Before: x → conv2d (NCHW) → relu → call of a backend
After:  x → layout_transform → conv2d (NHWC, the output channel innermost) → relu
          → layout_transform → call of a backend

Values that a backend reads or writes keep their layouts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tvm

from ...layout.plan import plan_layout
from ...layout.report.plan_report import Conversions, PlanReport
from ...layout.rewrite.func_proofs import FuncProofs
from ...layout.search.constraints import Desired, check
from ...layout.search.implementations import TVM_NHWC

if TYPE_CHECKING:
    from .dispatch import Dispatched


def in_fallback_layouts(
    result: Dispatched, desired: Desired | str | None, target: Any,
    proofs: FuncProofs | None = None,
) -> Dispatched:  # fmt: skip
    """The result with the operators that stay with TVM in TVM's fallback layouts; CPUs only.

    Operators with ``desired`` layouts keep them.
    """
    if isinstance(desired, str) or tvm.target.Target(target).kind.name != "llvm":
        return result
    requested = check(desired or {})
    ops = {o.op for o in result.left} & set(TVM_NHWC.layouts) - set(requested)
    if not ops:
        return result
    planned = plan_layout(result.module, dict.fromkeys(sorted(ops), TVM_NHWC.name), proofs=proofs)
    return replace(result, module=planned.module, report=_joined(result.report, planned.report))


def _joined(report: PlanReport | None, more: PlanReport) -> PlanReport | None:
    """The report, with the conversions that a later plan adds counted as left."""
    if report is None:
        return None

    def remaining() -> Conversions:
        old, before, after = report.after, more.before, more.after
        return Conversions(old.number + after.number - before.number,
                           old.bytes + after.bytes - before.bytes)  # fmt: skip

    return replace(report, left=remaining)
