"""Compare runs of builds by several calls, such as a step and a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, floor, inf, log, log10

from .trial_runs import TrialRun

#: The most part of a build's time that another one may take in any call to replace it.
SLOWER = 1.05
#: Milliseconds that a clock can tell.
RESOLUTION = 1e-6


def by_call(run: TrialRun) -> tuple[TrialRun, ...]:
    """Return a run as one for each call."""
    return (replace(run, further=()), *run.further)


def counted(runs: Mapping[str, TrialRun]) -> dict[str, TrialRun]:
    """Return runs without the calls that no build can make; one that fails in another has no times.

    A size that no build can run is one that the model does not take.
    """
    parts = {name: by_call(run) for name, run in runs.items()}
    length = max(map(len, parts.values()), default=0)
    able = [k for k in range(length) if any(len(p) > k and p[k].times for p in parts.values())]
    return {name: _of(part, able) for name, part in parts.items()}


def _of(part: tuple[TrialRun, ...], able: list[int]) -> TrialRun:
    """Return the run of some calls; without times if one of them fails."""
    chosen = [part[k] for k in able if k < len(part)]
    if len(chosen) < len(able) or not chosen or not all(run.times for run in chosen):
        return TrialRun((), (), part[0].loaded, part[0].error)
    first, *further = chosen
    return replace(first, further=tuple(further))


def milliseconds(run: TrialRun) -> float:
    """Return the geometric mean of the least milliseconds of each call; infinite without times."""
    leasts = _leasts(run)
    if len(leasts) == 1:
        return leasts[0]
    return exp(sum(log(max(ms, RESOLUTION)) for ms in leasts) / len(leasts))


def nowhere_slower(run: TrialRun, other: TrialRun) -> bool:
    """Return whether a run takes at most `SLOWER` of another one's time in each call."""
    if not run.further:
        return True  # its only time is compared anyway
    pairs = zip(_leasts(run), _leasts(other), strict=True)
    return all(mine <= SLOWER * theirs for mine, theirs in pairs)


def spelled(run: TrialRun) -> str:
    """Format milliseconds: ``0.213 ms``, or ``0.213 and 4.12 ms`` for two calls."""
    return f"{' and '.join(map(_rounded, _leasts(run)))} ms" if run.times else "an error"


def _rounded(ms: float) -> str:
    """Format a time with three significant digits.

    >>> _rounded(0.001234), _rounded(0.9996), _rounded(12.34), _rounded(1234.5)
    ('0.00123', '1.00', '12.3', '1234')
    """
    digits = 2 - floor(log10(float(f"{max(ms, RESOLUTION):.2e}")))
    return f"{ms:.{max(digits, 0)}f}"


def _leasts(run: TrialRun) -> list[float]:
    return [min(part.times, default=inf) for part in by_call(run)]
