"""Reports of a dispatch: regions, remaining operators, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.matching.diagnose import FallbackOp
from ..byoc.patterns.failure import STAGES
from .layouts import CONVERSION, conversions, lines_of, table

if TYPE_CHECKING:
    from rich.table import Table

LEFT = ("operator", "count", "why it stays with TVM", "what would change that", "for example")
FAILED = ("backend", "where", "what failed", "why", "operators", "run by")
#: Number of operators named as examples of a reason.
EXAMPLES = 3
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


def grouped(left: Sequence[FallbackOp]) -> list[LeftGroup]:
    """Group by operator and reason, largest group first."""
    groups: dict[tuple[str, str, str], list[FallbackOp]] = {}
    for o in left:
        groups.setdefault((o.op, o.why, o.suggestion), []).append(o)
    found = [LeftGroup(*key, tuple(members)) for key, members in groups.items()]
    return sorted(found, key=lambda group: -len(group.members))


def left(done: Dispatched) -> list[tuple[str, str, str, str, str]]:
    """Return a row of `LEFT` for each operator and reason."""
    return [
        (group.op, str(len(group.members)), group.why, group.suggestion, group.examples())
        for group in grouped(done.left)
    ]


def reasons(left: Sequence[FallbackOp]) -> list[str]:
    """Return lines of text for each operator and reason.

    ``6 x relax.image.resize2d: no pattern of onednn has relax.image.resize2d``, then examples.
    """
    lines = []
    for group in grouped(left):
        lines += [f"{len(group.members)} x {group.op}: {group.why}", f"    {group.examples()}"]
        if group.suggestion:
            lines.append(f"    to change that: {group.suggestion}")
    return lines


def failed(done: Dispatched) -> list[tuple[str, str, str, str, str, str]]:
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
        for failure in done.failed
    ]


def shares(done: Dispatched) -> list[tuple[str, int, int, float]]:
    """Return regions, operators and share of the FLOPs of each backend, and of TVM."""
    out = []
    for backend in sorted({t.backend for t in done.taken}):
        mine = [t for t in done.taken if t.backend == backend]
        ops = sum(len(t.ops) for t in mine)
        out.append((backend, len(mine), ops, share(done, sum(t.flops for t in mine))))
    rest = done.total - sum(t.flops for t in done.taken)
    return [*out, ("tvm", 0, len(done.left), share(done, rest))]


def share(done: Dispatched, flops: int) -> float:
    return flops / done.total if done.total else 0.0


def tables(done: Dispatched) -> list[Table]:
    """Return tables of remaining operators, failures and layout conversions."""
    out = [lines_of(reasons(done.left)), table(FAILED, failed(done))]
    if done.report is not None:
        out.append(table(CONVERSION, conversions(done.report)))
    return [t for t in out if t.row_count]


def to_json(done: Dispatched) -> dict[str, Any]:
    """Return the dispatch as JSON values."""
    report = done.report
    return {
        "summary": done.summary(),
        "status": done.status,
        "flops": done.total,
        "taken": [
            {
                "backend": t.backend,
                "pattern": t.pattern,
                "ops": list(t.ops),
                "flops": t.flops,
                "rounds": t.rounds,
                "nodes": list(t.nodes),
                "microseconds": t.microseconds,
            }
            for t in done.taken
        ],
        "left": [
            {"name": o.name, "node": o.node, "op": o.op, "why": o.why, "mend": o.suggestion}
            for o in done.left
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
            for failure in done.failed
        ],
        "layouts": None if report is None else report.to_json(),
    }
