"""How often builds are called to be timed."""

from __future__ import annotations

import itertools

import pytest

from opinfo.verify import trial_runs


@pytest.mark.parametrize(
    ("seconds", "runs"), [(0.02, trial_runs.RUNS), (0.3, 4), (1.1, trial_runs.FEWEST)]
)
def test_seconds_of_the_clock_end_the_runs(
    seconds: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall's seconds are those of other processes, too: here 100 at each reading."""
    monkeypatch.setattr(trial_runs, "_settle", lambda: None)
    wall = itertools.count(0, 100)
    monkeypatch.setattr(trial_runs, "perf_counter", lambda: next(wall))
    used = 0.0

    def call() -> None:
        nonlocal used
        used += seconds

    (times,) = trial_runs._times([call], lambda: used)
    assert len(times) == runs
    assert times == pytest.approx([1e3 * seconds] * runs)
