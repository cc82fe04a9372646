"""What a dispatch gives: the module, and what became of each operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...layout.report.plan_report import PlanReport
from ..matching.diagnose import Left
from ..patterns.failure import Failure
from .plan_file import DispatchPlan

if TYPE_CHECKING:
    from ..measure import Timing


@dataclass(frozen=True)
class Taken:
    """A region that a backend has: the operators in it, and what was matched.

    ``rounds`` says how it rounds elsewhere than op by op, where its converter rearranged it.
    ``nodes`` are the nodes of the model that its operators come from, as far as they are known.
    ``microseconds``: the time of a call, where it was measured to choose the region.
    """

    symbol: str
    backend: str
    pattern: str
    ops: tuple[str, ...]
    flops: int
    rounds: str | None = None
    nodes: tuple[str, ...] = ()
    microseconds: float | None = None


@dataclass(frozen=True)
class Dispatched:
    """The result of a dispatch.

    Attributes:
        module: The module, in which regions are calls of backends.
        taken: The regions, with the operators in each.
        left: The operators that stay with TVM, and why.
        options: Options for the C++ compiler.
        status: The solver's status.
        plan: What to save in order to repeat this dispatch.
        total: The floating-point operations of the module.
        timings: What was measured to choose the regions.
        report: The layouts, where they were chosen too.
        failed: All code of backends that failed: regions that were dropped, and hooks such as a
            cost or a condition, which cost none.
    """

    module: Any
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    options: tuple[str, ...]
    status: str
    plan: DispatchPlan
    total: int = 0
    timings: tuple[Timing, ...] = ()
    report: PlanReport | None = None
    failed: tuple[Failure, ...] = ()

    @property
    def lost(self) -> tuple[Failure, ...]:
        """Those of `failed` that cost a region: its operators went elsewhere."""
        return tuple(f for f in self.failed if f.ops)

    def summary(self) -> str:
        """One line: ``offloaded 57 of 61 ops, 99.2% of FLOPs, onednn 57, tvm 4``.

        Where layouts were chosen too it ends in ``; 2 layout conversions``.
        """
        ops = sum(len(t.ops) for t in self.taken)
        by: dict[str, int] = {}
        for t in self.taken:
            by[t.backend] = by.get(t.backend, 0) + len(t.ops)
        share = sum(t.flops for t in self.taken) / self.total if self.total else 0.0
        told = "".join(f", {name} {n}" for name, n in sorted(by.items()))
        moving = None if self.report is None else self.report.after.number
        plural = "" if moving == 1 else "s"
        conversions = "" if moving is None else f"; {moving} layout conversion{plural}"
        return (f"offloaded {ops} of {ops + len(self.left)} ops, {share:.1%} of FLOPs{told}, "
                f"tvm {len(self.left)}{conversions}")  # fmt: skip

    def failures(self) -> str:
        """One line, empty where no region failed.

        ``1 region failed, run by tvm: onednn, pattern conv, region lv3 (…): …``
        """
        lost = self.lost
        if not lost:
            return ""
        now = ", ".join(sorted({n for f in lost for n in f.now}))
        regions = "1 region" if len(lost) == 1 else f"{len(lost)} regions"
        return f"{regions} failed, run by {now}: {'; '.join(_once(lost))}"


def _once(failures: Sequence[Failure]) -> list[str]:
    """Failures in words, each reason once: after the first of its regions."""
    by: dict[tuple[str, str, str], list[Failure]] = {}
    for f in failures:
        by.setdefault((f.backend, f.stage, f.reason), []).append(replace(f, now=()))
    return [f"{first}{' (and of ' if rest else ''}"
            f"{', '.join(f.region for f in rest)}{')' if rest else ''}"
            for first, *rest in by.values()]  # fmt: skip
