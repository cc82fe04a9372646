"""Measure calls: CPU seconds, resident memory, medians of calls taken in turns."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
#: Seconds after which the threads of ONNX Runtime, GNU OpenMP and TVM sleep.
SETTLED = 0.1


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function; return the CPU seconds of this process, and the result.

    Wall time would depend on what else runs on the machine.
    """
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def family_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, also of those that still run."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    rows = [row for path in Path("/proc").glob("[0-9]*/stat") if (row := _stat(path)) is not None]
    family = {os.getpid()}
    while more := {pid for pid, parent, _ in rows if parent in family} - family:
        family |= more
    return total + sum(s for pid, _, s in rows if pid in family and pid != os.getpid())


def _stat(path: Path) -> tuple[int, int, float] | None:
    """Return a process, its parent, and the CPU seconds of it and its children that have ended."""
    try:
        name, _, rest = path.read_text().rpartition(")")
    except OSError:  # it has ended
        return None
    fields = rest.split()
    ticks = sum(map(int, fields[11:15]))
    return int(name.split()[0]), int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")


def resident() -> int:
    """Return the bytes of memory that are resident now."""
    return _status("VmRSS")


def reset_peak() -> None:
    """Reset the peak of resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the peak of resident bytes since `reset_peak`."""
    return _status("VmHWM")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise KeyError(field)


def percentile(values: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def use_threads(count: int) -> None:
    """Set the number of threads of libraries, which read it when they are loaded."""
    if "tvm" in sys.modules:
        raise RuntimeError(f"TVM is imported already: it would not have {count} threads")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(count)


def in_turns(calls: Sequence[Call], rounds: int = 9) -> list[float]:
    """Return median milliseconds of each call; slow calls are made only twice.

    In each turn, a pause and an uncounted call come before the timed one, because the threads of
    the previous pool spin for some time on the cores that the next one needs.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, measured in zip(calls, times, strict=True):
            if measured and statistics.median(measured) > 2000:
                continue
            time.sleep(SETTLED)
            call()
            start = time.perf_counter()
            call()
            measured.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(t) for t in times]
