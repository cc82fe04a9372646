"""What one call takes: CPU seconds, resident memory, medians of calls taken in turns."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
#: Seconds after which the threads of ONNX Runtime, GNU OpenMP and TVM have gone to sleep.
SETTLED = 0.1


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds that this process spends on something, and its result.

    Wall time says more about what else runs on the machine.
    """
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def resident() -> int:
    """Bytes of memory that are resident now."""
    return _status("VmRSS")


def reset_peak() -> None:
    """Start to look for the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most bytes that were resident since `reset_peak`."""
    return _status("VmHWM")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise KeyError(field)


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def use_threads(count: int) -> None:
    """How many threads the libraries have, which look when they are loaded."""
    if "tvm" in sys.modules:
        raise RuntimeError(f"TVM is imported already: it would not have {count} threads")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(count)


def in_turns(calls: Sequence[Call], rounds: int = 9) -> list[float]:
    """Median milliseconds of each; a slow one is called but twice.

    The timed call of a turn comes after a pause and a call that does not count: the threads of
    the pool before spin for some time, on the cores that the next one needs.
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
