"""The result of a dispatch: the module, and where each operator runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...layout.report.plan_report import PlanReport
from ..calibration.cost_model import Estimate
from ..matching.diagnose import FallbackOp
from ..patterns.failure import Failure
from .choice.plan_file import DispatchPlan

if TYPE_CHECKING:
    from ..measure import Timing


@dataclass(frozen=True)
class OffloadedRegion:
    """A region that runs on a backend.

    Attributes:
        symbol: The exported function of its code.
        backend: The backend.
        pattern: The pattern that matched.
        ops: Its operators.
        flops: The number of its floating-point operations.
        rounds: How it rounds differently from its individual operators; None if it does not.
        nodes: The nodes of the model that its operators come from, where known.
        microseconds: The time of a call; None unless it was measured.
        costs: The expected cost by backend, and with ``tvm``, where these operators could go as a
            whole; with the source of each: measured, calibrated or estimated.
    """

    symbol: str
    backend: str
    pattern: str
    ops: tuple[str, ...]
    flops: int
    rounds: str | None = None
    nodes: tuple[str, ...] = ()
    microseconds: float | None = None
    costs: tuple[tuple[str, Estimate], ...] = ()


@dataclass(frozen=True)
class Dispatched:
    """The result of a dispatch.

    Attributes:
        module: The module, in which regions are calls of backends.
        taken: The regions, with the operators in each.
        left: The operators that stay with TVM, and why.
        options: Options for the C++ compiler.
        status: The solver's status.
        plan: A plan that replays this dispatch; save it with `DispatchPlan.save`.
        total: The number of floating-point operations of the module.
        timings: The times measured to choose the regions.
        report: The planned layouts; None if they were not planned.
        failed: Failures of backends' code. Some drop a region; a hook that fails, such as a cost or
            a condition, does not.
    """

    module: Any
    taken: tuple[OffloadedRegion, ...]
    left: tuple[FallbackOp, ...]
    options: tuple[str, ...]
    status: str
    plan: DispatchPlan
    total: int = 0
    timings: tuple[Timing, ...] = ()
    report: PlanReport | None = None
    failed: tuple[Failure, ...] = ()

    @property
    def lost(self) -> tuple[Failure, ...]:
        """The failures that cost a region; its operators went to another backend or to TVM."""
        return tuple(f for f in self.failed if f.ops)

    def summary(self) -> str:
        """One line: ``offloaded 57 of 61 ops, 99.2% of FLOPs, onednn 57, tvm 4``.

        If layouts were planned, it ends in ``; 2 layout conversions``.
        """
        ops = sum(len(t.ops) for t in self.taken)
        counts: dict[str, int] = {}
        for region in self.taken:
            counts[region.backend] = counts.get(region.backend, 0) + len(region.ops)
        share = sum(t.flops for t in self.taken) / self.total if self.total else 0.0
        backends = "".join(f", {name} {n}" for name, n in sorted(counts.items()))
        number = None if self.report is None else self.report.after.number
        plural = "" if number == 1 else "s"
        conversions = "" if number is None else f"; {number} layout conversion{plural}"
        return (f"offloaded {ops} of {ops + len(self.left)} ops, {share:.1%} of FLOPs{backends}, "
                f"tvm {len(self.left)}{conversions}")  # fmt: skip

    def failures(self) -> str:
        """One line; empty if no region failed.

        ``1 region failed, run by tvm: onednn, pattern conv, region lv3 (…): …``
        """
        lost = self.lost
        if not lost:
            return ""
        now = ", ".join(sorted({n for f in lost for n in f.now}))
        regions = "1 region" if len(lost) == 1 else f"{len(lost)} regions"
        return f"{regions} failed, run by {now}: {'; '.join(_once(lost))}"


def _once(failures: Sequence[Failure]) -> list[str]:
    """Failures in words, each reason once, with all its regions."""
    by: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        by.setdefault((failure.backend, failure.stage, failure.reason), []).append(
            replace(failure, now=())
        )
    return [f"{first}{' (and of ' if others else ''}"
            f"{', '.join(f.region for f in others)}{')' if others else ''}"
            for first, *others in by.values()]  # fmt: skip
