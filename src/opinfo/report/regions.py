"""Reports of a dispatch: regions, remaining operators, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..byoc.dispatching.dispatch import Dispatched, OffloadedRegion
from ..byoc.matching.diagnose import FallbackOp
from ..byoc.patterns.failure import STAGES
from .layouts import CONVERSION, conversions, lines_of, table

if TYPE_CHECKING:
    from rich.table import Table

LEFT = ("operator", "count", "why it stays with TVM", "what would change that", "for example")
FAILED = ("backend", "where", "what failed", "why", "operators", "run by")
#: Number of operators named as examples of a reason.
EXAMPLES = 3
#: Number of operators named of a region.
SHOWN = 6
COSTS = ("backend", "operators", "regions", "expected cost in all")
SHARES = ("backend", "regions", "ops", "FLOPs")


@dataclass(frozen=True)
class LeftGroup:
    """Operators that no backend took for the same reason."""

    op: str
    why: str
    suggestion: str
    members: tuple[FallbackOp, ...]

    def examples(self) -> str:
        """Return the first few, by the model's names if known."""
        names = [f"{o.node} ({o.name})" if o.node else o.name for o in self.members]
        more = len(names) - EXAMPLES
        return ", ".join(names[:EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def grouped(operators: Sequence[FallbackOp]) -> list[LeftGroup]:
    """Group by operator and reason, largest group first."""
    groups: dict[tuple[str, str, str], list[FallbackOp]] = {}
    for operator in operators:
        groups.setdefault((operator.op, operator.why, operator.suggestion), []).append(operator)
    result = [LeftGroup(*key, tuple(members)) for key, members in groups.items()]
    return sorted(result, key=lambda group: -len(group.members))


def remaining(dispatched: Dispatched) -> list[tuple[str, str, str, str, str]]:
    """Return a row of `LEFT` for each operator and reason."""
    return [
        (group.op, str(len(group.members)), group.why, group.suggestion, group.examples())
        for group in grouped(dispatched.left)
    ]


def reasons(operators: Sequence[FallbackOp]) -> list[str]:
    """Return lines of text for each operator and reason.

    ``6 x relax.image.resize2d: no pattern of onednn has relax.image.resize2d``, then examples.
    """
    lines = []
    for group in grouped(operators):
        lines += [f"{len(group.members)} x {group.op}: {group.why}", f"    {group.examples()}"]
        if group.suggestion:
            lines.append(f"    to change that: {group.suggestion}")
    return lines


def failed(dispatched: Dispatched) -> list[tuple[str, str, str, str, str, str]]:
    """Return a row of `FAILED` for each failure of a backend."""
    return [
        (
            failure.backend,
            ", ".join(filter(None, (failure.rule, failure.value and f"region {failure.value}"))),
            STAGES[failure.stage],
            failure.reason,
            ", ".join(failure.ops),
            ", ".join(failure.now),
        )
        for failure in dispatched.failed
    ]


def shares(dispatched: Dispatched) -> list[tuple[str, int, int, float]]:
    """Return regions, operators and share of the FLOPs of each backend, and of TVM."""
    out = []
    for backend in sorted({t.backend for t in dispatched.taken}):
        regions = [t for t in dispatched.taken if t.backend == backend]
        ops = sum(len(t.ops) for t in regions)
        out.append((backend, len(regions), ops, share(dispatched, sum(t.flops for t in regions))))
    tvm_flops = dispatched.total - sum(t.flops for t in dispatched.taken)
    return [*out, ("tvm", 0, len(dispatched.left), share(dispatched, tvm_flops))]


def share(dispatched: Dispatched, flops: int) -> float:
    return flops / dispatched.total if dispatched.total else 0.0


def costs(dispatched: Dispatched) -> list[tuple[str, str, str, str]]:
    """Return a row of `COSTS` for each kind of region, the most expensive first.

    Regions of the same operators on the same backend are added up.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[OffloadedRegion]] = {}
    for region in dispatched.taken:
        if region.costs:
            groups.setdefault((region.backend, region.ops), []).append(region)
    rows = []
    for (backend, ops), regions in groups.items():
        sums: dict[str, float] = {}
        sources: dict[str, set[str]] = {}
        for name, cost in (pair for r in regions for pair in r.costs):
            sums[name] = sums.get(name, 0.0) + cost.microseconds
            sources.setdefault(name, set()).add(cost.source)
        lines = [f"{n} {t:.0f} us ({', '.join(sorted(sources[n]))})"
                for n, t in sorted(sums.items(), key=lambda item: item[1])]  # fmt: skip
        names = ", ".join(op.removeprefix("relax.") for op in ops[:SHOWN])
        more = f" and {len(ops) - SHOWN} more" if len(ops) > SHOWN else ""
        rows.append((sums[backend], (backend, f"{names}{more}", str(len(regions)),
                                     ", ".join(lines))))  # fmt: skip
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def tables(dispatched: Dispatched) -> list[Table]:
    """Return tables of remaining operators, failures, expected costs and conversions."""
    out = [lines_of(reasons(dispatched.left)), table(FAILED, failed(dispatched)),
           table(COSTS, costs(dispatched))]  # fmt: skip
    if dispatched.report is not None:
        out.append(table(CONVERSION, conversions(dispatched.report)))
    return [t for t in out if t.row_count]


def to_json(dispatched: Dispatched) -> dict[str, Any]:
    """Return the dispatch as JSON values."""
    report = dispatched.report
    return {
        "summary": dispatched.summary(),
        "status": dispatched.status,
        "flops": dispatched.total,
        "taken": [
            {
                "backend": region.backend,
                "pattern": region.pattern,
                "ops": list(region.ops),
                "flops": region.flops,
                "rounds": region.rounds,
                "nodes": list(region.nodes),
                "microseconds": region.microseconds,
                "costs": {
                    name: {"microseconds": cost.microseconds, "source": cost.source}
                    for name, cost in region.costs
                },
            }
            for region in dispatched.taken
        ],
        "left": [
            {
                "name": operator.name,
                "node": operator.node,
                "op": operator.op,
                "why": operator.why,
                "mend": operator.suggestion,
            }
            for operator in dispatched.left
        ],
        "failed": [
            {
                "backend": failure.backend,
                "stage": failure.stage,
                "reason": failure.reason,
                "rule": failure.rule,
                "value": failure.value,
                "ops": list(failure.ops),
                "now": list(failure.now),
            }
            for failure in dispatched.failed
        ],
        "layouts": None if report is None else report.to_json(),
    }
