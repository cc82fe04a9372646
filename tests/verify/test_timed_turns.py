"""How often builds are called to be timed."""

from __future__ import annotations

import itertools

import pytest

from opinfo.verify import timed_turns


@pytest.mark.parametrize(
    ("seconds", "runs"), [(0.02, timed_turns.RUNS), (0.3, 4), (1.1, timed_turns.FEWEST)]
)
def test_seconds_of_the_clock_end_the_runs(
    seconds: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall's seconds are those of other processes, too: here 100 at each reading."""
    monkeypatch.setattr(timed_turns, "_settle", lambda: None)
    wall = itertools.count(0, 100)
    monkeypatch.setattr(timed_turns, "perf_counter", lambda: next(wall), raising=False)
    used = 0.0

    def call() -> None:
        nonlocal used
        used += seconds

    (times,) = timed_turns.timed_turns([call], lambda: used)
    assert len(times) == runs
    assert times == pytest.approx([1e3 * seconds] * runs)
