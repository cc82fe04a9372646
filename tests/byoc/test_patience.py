"""A limit is on what a process does, not on what else the machine does."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from opinfo.byoc.process import patience
from opinfo.byoc.process.patience import STARVED, Patience, cpu_seconds

#: Each second of the clock, the seconds of CPU time, and when it is over with a limit of 10 s.
CASES: dict[str, tuple[list[float], int]] = {
    "it has a CPU": ([float(t) for t in range(300)], 10),
    "it waits for one": ([t / 5 for t in range(300)], 50),
    "it hangs": ([min(3.0, t) for t in range(300)], 13),
    "it does nothing": ([0.0] * 300, 10),
    "it only polls": ([t / 100 for t in range(300)], 10 * STARVED),
}


@pytest.mark.parametrize("name", CASES)
def test_when_it_is_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used, over = CASES[name]
    now = [0]
    monkeypatch.setattr(time, "monotonic", lambda: float(now[0]))
    monkeypatch.setattr(patience, "cpu_seconds", lambda _: used[now[0]])
    found = Patience(1, 10.0)
    while not found.is_over():
        assert 0 < found.next <= 1
        now[0] += 1
    assert now[0] == over


def test_where_nobody_says_the_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience, "cpu_seconds", lambda _: None)
    found = Patience(1, 10.0)
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
