"""The page that a run writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

#: Seconds of CPU that one question may take, and 99 of 100 of them.
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
        "Each program is generated from one number: a formula that is an operator's, or nearly, in",
        "loops that compute every element of an output, or nearly. `op_info` and `op_infos` are",
        "asked about it; LLVM runs it and the operators that were answered on NaN, infinities,",
        "zeros of both signs, denormals and the ends of integer types, less what the certificate",
        "assumes away. What is called exact has to be equal bit by bit, NaN apart. *Refused* is no",
        "answer, *unrun* is what TVM does not compile.",
        "",
        f"{len({r['seed'] for r in rows})} programs, {len(rows)} questions: "
        + ", ".join(f"{total[v]} {v}" for v in VERDICTS)
        + f". CPU a question: median {percentile(rows, 50) * 1e3:.0f} ms, 99th percentile "
        f"{percentile(rows) * 1e3:.0f} ms, most {max(times, default=0) * 1e3:.0f} ms "
        f"(limits: {P99:g} s and {LONGEST:g} s).",
        "",
    ]
    if several.runs:
        lines += [
            f"Asked again in {several.runs} runs under different `PYTHONHASHSEED`, each in another "
            f"order and with other names: {len(several.said)} questions, {len(several.differ)} "
            "with more than one answer.",
            "",
        ]
    lines += ["| family | " + " | ".join(VERDICTS) + " |", "|---" * (len(VERDICTS) + 1) + "|"]
    for family in sorted({r["family"] for r in rows}):
        own = Counter(r["verdict"] for r in rows if r["family"] == family)
        lines.append(f"| {family} | " + " | ".join(str(own[v]) for v in VERDICTS) + " |")
    return "\n".join(lines) + "\n"


def percentile(rows: Sequence[dict[str, Any]], part: int = 99) -> float:
    """Seconds of CPU that a part of a hundred questions stays below."""
    times = sorted(r["cpu"] for r in rows)
    return times[min(len(times) * part // 100, len(times) - 1)] if times else 0.0
