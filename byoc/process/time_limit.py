"""Time limits for processes that do not depend on the load of the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

#: Factor on the limit for a process that waits for a CPU.
STARVED = 20
#: Factor on the limit for a process that sleeps, but not all the time: it may wait for a disk.
ASLEEP = 2


@dataclass
class TimeLimit:
    """A limit of ``seconds`` of CPU time of a process and its descendants, or of idling.

    A process that wakes up only to sleep again ends after twice the limit. If the system does not
    report CPU times, wall-clock time counts.
    """

    pid: int
    seconds: float
    _begun: float = field(init=False)
    _since: float = field(init=False)  # the last time it used the CPU
    _cpu: float | None = field(init=False)  # CPU seconds at that time
    _last: float = field(init=False)
    _waited: dict[int, float] = field(init=False, default_factory=dict)  # by thread, ended or not

    def __post_init__(self) -> None:
        self._begun = self._since = time.monotonic()
        self._cpu = cpu_seconds(self.pid)
        self._last = self._cpu or 0.0

    @property
    def next(self) -> float:
        """The seconds until the limit may be reached."""
        return max(0.001, min(self._since + self.seconds - time.monotonic(), 1.0))

    def is_over(self) -> bool:
        now, cpu = time.monotonic(), cpu_seconds(self.pid)
        if self._cpu is None or cpu is None:
            return now - self._begun >= self.seconds
        if cpu != self._last:
            self._last, self._since = cpu, now
        idle = now - self._since >= self.seconds
        starved = now - self._begun >= STARVED * self.seconds
        return idle or starved or cpu - self._cpu >= self.seconds or self._sleeps(now, cpu)

    def _sleeps(self, now: float, cpu: float) -> bool:
        """Return whether it neither ran nor waited for a CPU for `ASLEEP` times the limit."""
        waiting = waiting_seconds(self.pid)
        if waiting is None or self._cpu is None:
            return False
        self._waited |= waiting
        slept = now - self._begun - (cpu - self._cpu) - sum(self._waited.values())
        return slept >= ASLEEP * self.seconds


def cpu_seconds(pid: int) -> float | None:
    """The CPU seconds of a process and its descendants; None if the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        inner = list(_children(pid))
    except OSError:
        return None
    # user and system time, of the process and of children that have ended
    seconds = sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(cpu_seconds(child) or 0.0 for child in inner)


def waiting_seconds(pid: int) -> dict[int, float] | None:
    """The seconds for which a process and its descendants waited for a CPU, by thread.

    None if the system does not say.
    """
    waited: dict[int, float] = {}
    try:
        for thread, text in _of_threads(pid, "schedstat"):
            waited[thread] = int(text.split()[1]) / 1e9
        inner = list(_children(pid))
    except (OSError, IndexError):
        return None
    for child in inner:
        waited |= waiting_seconds(child) or {}
    return waited or None


def _children(pid: int) -> Iterator[int]:
    for _, text in _of_threads(pid, "children"):
        yield from map(int, text.split())


def _of_threads(pid: int, name: str) -> Iterator[tuple[int, str]]:
    """Yield a file of each thread; one may end while the files are read."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield int(thread.name), (thread / name).read_text()
