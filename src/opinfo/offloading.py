"""What became of each operator of a dispatched module: tables, and the same for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .byoc.dispatching.dispatch import Dispatched
from .byoc.patterns.failure import STAGES
from .planning import CONVERSION, conversions, table

if TYPE_CHECKING:
    from rich.table import Table

LEFT = ("value", "operator", "why it stays with TVM", "what would mend it")
FAILED = ("backend", "where", "what failed", "why", "operators", "run by")
SHARES = ("backend", "regions", "ops", "FLOPs")


def left(done: Dispatched) -> list[tuple[str, str, str, str]]:
    """A row of `LEFT` for each operator that no backend took."""
    return [(o.name, o.op, o.why, o.mend) for o in done.left]


def failed(done: Dispatched) -> list[tuple[str, str, str, str, str, str]]:
    """A row of `FAILED` for what each backend's code failed on."""
    return [(f.backend, ", ".join(filter(None, (f.rule, f.value and f"region {f.value}"))),
             STAGES[f.stage], f.reason, ", ".join(f.ops), ", ".join(f.now))
            for f in done.failed]  # fmt: skip


def shares(done: Dispatched) -> list[tuple[str, int, int, float]]:
    """What each backend has: regions, operators, and which part of the FLOPs; TVM the rest."""
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
    """Why each operator stayed, what failed, and each conversion of layouts."""
    out = [table(LEFT, left(done)), table(FAILED, failed(done))]
    if done.report is not None:
        out.append(table(CONVERSION, conversions(done.report)))
    return [t for t in out if t.row_count]


def to_json(done: Dispatched) -> dict[str, Any]:
    """A value that `json.dumps` takes."""
    report = done.report
    return {
        "summary": done.summary(),
        "status": done.status,
        "flops": done.total,
        "taken": [
            {"backend": t.backend, "pattern": t.pattern, "ops": list(t.ops), "flops": t.flops,
             "rounds": t.rounds} for t in done.taken
        ],
        "left": [{"name": o.name, "op": o.op, "why": o.why, "mend": o.mend} for o in done.left],
        "failed": [
            {"backend": f.backend, "stage": f.stage, "reason": f.reason, "rule": f.rule,
             "value": f.value, "ops": list(f.ops), "now": list(f.now)} for f in done.failed
        ],
        "layouts": None if report is None else report.to_json(),
    }  # fmt: skip
