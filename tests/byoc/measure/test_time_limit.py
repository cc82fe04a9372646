"""A limit is on what a process does, not on what else the machine does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from opinfo.byoc.process import time_limit
from opinfo.byoc.process.time_limit import STARVED, TimeLimit, cpu_seconds

#: CPU time per second of the clock, the part of the rest that is spent waiting for a CPU (None:
#: unknown), and when it is over with a limit of 10 s.
CASES: dict[str, tuple[float, float | None, int]] = {
    "it has a CPU": (1.0, 0.0, 10),
    "it waits for one": (1 / 5, 1.0, 50),
    "nobody says that it waits": (1 / 5, None, 50),
    "it waits for a disk half of the time": (1 / 2, 0.0, 20),
    "it waits for a disk, and for a CPU": (1 / 5, 3 / 4, 50),
    "it does nothing": (0.0, 0.0, 10),
    "it only polls": (1 / 128, 0.0, 21),
    "nobody says that it only polls": (1 / 128, None, 10 * STARVED),
}


@pytest.mark.parametrize("name", CASES)
def test_when_it_is_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, waits, over = CASES[name]
    assert _over(monkeypatch, lambda t: t * runs, waits) == over


def test_when_it_hangs_after_some_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _over(monkeypatch, lambda t: min(3.0, t), 0.0) == 13


def _over(monkeypatch: pytest.MonkeyPatch, cpu: Callable[[int], float], waits: float | None) -> int:
    """Return the second at which a limit of 10 s is over."""
    now = [0]
    waiting = (lambda _: None) if waits is None else (
        lambda pid: {pid: (now[0] - cpu(now[0])) * waits})  # fmt: skip
    monkeypatch.setattr(time, "monotonic", lambda: float(now[0]))
    monkeypatch.setattr(time_limit, "cpu_seconds", lambda _: cpu(now[0]))
    monkeypatch.setattr(time_limit, "waiting_seconds", waiting)
    limit = TimeLimit(1, 10.0)
    while not limit.is_over():
        assert 0 < limit.next <= 1
        now[0] += 1
    return now[0]


def test_a_process_that_only_polls_ends() -> None:
    """Its CPU time alone would take minutes to reach the limit."""
    process = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(1e-3)"])
    try:
        limit = TimeLimit(process.pid, 0.5)
        while not limit.is_over():
            assert process.poll() is None
            time.sleep(limit.next)
        used = cpu_seconds(process.pid)
        assert used is None or used < 0.5
    finally:
        process.kill()
        process.wait()


def test_where_nobody_says_the_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time_limit, "cpu_seconds", lambda _: None)
    found = TimeLimit(1, 10.0)
    now[0] = 9.9
    assert not found.is_over()
    now[0] = 10.0
    assert found.is_over()


def test_what_a_process_starts_counts() -> None:
    if cpu_seconds(os.getpid()) is None:
        return
    busy = "while True: pass"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    process = subprocess.Popen([sys.executable, "-c", outer], start_new_session=True)
    try:
        while (cpu_seconds(process.pid) or 0.0) < 1.0:
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert cpu_seconds(process.pid) is None
