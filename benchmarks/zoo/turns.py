"""Time calls in turns, and say how busy the cores were with other work meanwhile."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.resources import SETTLED, Call

ROUNDS = 9
#: Most seconds of the timings of a call: of long ones fewer are made.
LONGEST = 2.0


@dataclass(frozen=True)
class Turns:
    """Calls timed in turns.

    Attributes:
        milliseconds: The median of each call.
        busy: The share that other processes had of the CPU time of all cores meanwhile.
    """

    milliseconds: Mapping[str, float]
    busy: float


def in_turns(calls: Mapping[str, Call], threads: int, rounds: int = ROUNDS) -> Turns:
    """Time each call, all in turns.

    One thread is timed by CPU time, which other processes lengthen least: nothing here waits, and
    the two agree on an idle machine. A pause and an uncounted call come before each timing: threads
    of the previous pool spin for a while on the cores that the next one needs. A timing is the
    least of short parts.
    """
    from opinfo.verify.short_parts import seconds_of

    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    start, used, own = time.perf_counter(), _used(), time.process_time()
    for _ in range(rounds):
        for name, call in calls.items():
            if sum(times[name]) > LONGEST and len(times[name]) >= 3:
                continue
            time.sleep(SETTLED)
            call()
            times[name].append(seconds_of(call, clock))
    others = _used() - used - (time.process_time() - own)
    wall = max(time.perf_counter() - start, 1e-9)
    busy = min(max(others / (wall * (os.cpu_count() or 1)), 0.0), 1.0)
    return Turns({name: 1e3 * statistics.median(values) for name, values in times.items()}, busy)


def _used() -> float:
    """Return the CPU seconds that all processes have used since the machine started.

    Also those on other cores than ours: they share its last cache and its memory.
    """
    line = Path("/proc/stat").read_text().split("\n", 1)[0]
    user, nice, system, _, _, irq, soft, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
