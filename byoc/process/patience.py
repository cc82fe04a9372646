"""Time limits for processes that do not depend on the load of the machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

#: Factor on the limit for a process that waits for a CPU.
STARVED = 20


@dataclass
class Patience:
    """A limit of ``seconds`` of CPU time of a process and its descendants, or of idling.

    If the system does not report CPU times, wall-clock time counts.
    """

    pid: int
    seconds: float
    _begun: float = field(init=False)
    _since: float = field(init=False)  # the last time it used the CPU
    _cpu: float | None = field(init=False)  # CPU seconds at that time
    _last: float = field(init=False)

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
        return idle or starved or cpu - self._cpu >= self.seconds


def cpu_seconds(pid: int) -> float | None:
    """The CPU seconds of a process and its descendants; None if the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    # user and system time, of the process and of children that have ended
    seconds = sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(cpu_seconds(int(child)) or 0.0 for child in inner)
