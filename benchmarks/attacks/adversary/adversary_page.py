"""The page that a run writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

#: Limits in seconds of CPU time per query: the maximum, and the 99th percentile.
LONGEST, P99 = 5.0, 1.0
VERDICTS = ("right", "refused", "unrun", "wrong", "raised", "died")


def page(rows: Sequence[dict[str, Any]], several: Any, count: int, first: int) -> str:
    """The results as Markdown."""
    total = Counter(r["verdict"] for r in rows)
    times = [r["cpu"] for r in rows]
    lines = [
        "# Programs that invite wrong answers",
        "",
        f"Written by `python -m benchmarks.adversary --count {count} --first {first}"
        + (f" --hash-seeds {several.runs}" if several.runs else "")
        + " --page`.",
        "",
        "Each program is generated from a seed: the formula of an operator, or a similar one, in",
        "loops that compute every element of an output, or nearly all. `op_info` and `op_infos`",
        "analyse it. LLVM runs the program and the recovered operators on NaN, infinities, zeros",
        "of both signs, denormals and the limits of integer types, except for values that the",
        "certificate excludes. Exact results must be bit-equal, except for NaN. Each program is",
        "also scheduled like functions of symbolic shapes, and rewritten over random layouts; both",
        "results run beside it. Sizes of symbolic programs are small, equal and different ones.",
        "*Refused* means no answer; *unrun* programs do not compile with TVM.",
        "",
        f"{len({r['seed'] for r in rows})} programs, {len(rows)} queries: "
        + ", ".join(f"{total[v]} {v}" for v in VERDICTS)
        + f". CPU time per query: median {percentile(rows, 50) * 1e3:.0f} ms, 99th percentile "
        f"{percentile(rows) * 1e3:.0f} ms, maximum {max(times, default=0) * 1e3:.0f} ms "
        f"(limits: {P99:g} s and {LONGEST:g} s).",
        "",
    ]
    if several.runs:
        lines += [
            f"Repeated in {several.runs} runs with different `PYTHONHASHSEED`, order and names: "
            f"{len(several.said)} queries, {len(several.differ)} with more than one answer.",
            "",
        ]
    lines += ["| family | " + " | ".join(VERDICTS) + " |", "|---" * (len(VERDICTS) + 1) + "|"]
    for family in sorted({r["family"] for r in rows}):
        verdicts = Counter(r["verdict"] for r in rows if r["family"] == family)
        lines.append(f"| {family} | " + " | ".join(str(verdicts[v]) for v in VERDICTS) + " |")
    return "\n".join(lines) + "\n"


def percentile(rows: Sequence[dict[str, Any]], part: int = 99) -> float:
    """The CPU seconds that the given percentage of queries stay below."""
    times = sorted(r["cpu"] for r in rows)
    return times[min(len(times) * part // 100, len(times) - 1)] if times else 0.0
