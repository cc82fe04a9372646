"""The share of a call in kernels while the host does nothing else: a section of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.common.pages import table

TEXT = """## Time in kernels on an idle host

Written by `python -m benchmarks.gpu page DIR --idle` from a run of `time` with an empty `--mode`:
float16, no torch.compile, and no other process on the host or the device. **In kernels** is the
time in which a kernel runs, of a profile, relative to a call outside of it, in which kernels take
up to 2 % less: so a model may be above 100 %. **In the profile** is the same time relative to that
from the first kernel to the end of the last one in the profile, which adds to each gap. Calls of
the first twelve models follow each other in the profile; Llama's with 1024 tokens and MobileNetV3's
also follow half a second of others, since a device that rested has higher clocks (without that,
Llama has 94 %). The other models rested between calls.

In kernels at least 95 %: {enough} of {every}; in the profile: {profiled}.
"""
COLUMNS = ("model", "device", "opinfo, ms", "in kernels", "in the profile", "launches of a call")
#: What is kept of a row: milliseconds of a call, of kernels, and from the first to the last one.
_KEPT = ("device", "ours", "ours_busy", "ours_span", "ours_launches")


def with_idle(
    stored: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the stored rows, those of models in ``new`` with its times under ``idle``.

    A model that was never timed against others has no row, and is left out.
    """
    times = {(r["name"], r["dtype"]): r for r in new if "ours_span" in r}
    out = []
    for row in stored:
        found = times.get((row["name"], row["dtype"]))
        out.append(row | ({"idle": {k: found[k] for k in _KEPT}} if found else {}))
    return out


def section(rows: Sequence[dict[str, Any]]) -> str:
    """Return the section, or nothing if no row was timed so."""
    timed = [(r["name"], r["idle"]) for r in rows if "idle" in r]
    if not timed:
        return ""
    shares = [(i["ours_busy"] / i["ours"], i["ours_busy"] / i["ours_span"]) for _, i in timed]
    text = TEXT.format(every=len(timed), enough=_enough([s for s, _ in shares]),
                       profiled=_enough([s for _, s in shares]))  # fmt: skip
    cells = [
        [f"`{name}`", i["device"].removeprefix("NVIDIA ").partition(" ")[0], f"{i['ours']:.3g}",
         f"{busy:.1%}", f"{profiled:.1%}", f"{sum(i['ours_launches'].values()):g}"]
        for (name, i), (busy, profiled) in zip(timed, shares, strict=True)
    ]  # fmt: skip
    return f"{text}\n{table(list(COLUMNS), cells)}\n"


def _enough(shares: Sequence[float]) -> int:
    return sum(share >= 0.95 for share in shares)
