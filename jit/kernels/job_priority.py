"""The priority of jobs: low where the machine is idle or shared, higher while they starve.

Linux keeps a priority for each thread, and lets a process lower but not raise it. So one thread
stays near the priority of the server, and another one, which runs the jobs by default, is far
below it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")
#: Added to the niceness of the server: of starving jobs and of the start, and of other jobs.
URGENT, PATIENT = 3, 10
#: A job starves that gets less than this share of a core; others get more than the second one.
STARVED, FREE = 0.5, 0.8


@dataclass
class JobPriority:
    """Runs jobs one at a time, the next one at a higher priority if the last one starved.

    ``share`` measures what share of a core a job got.
    """

    share: Callable[[Callable[[], Any]], tuple[Any, float]] | None = None
    urgent: bool = False

    def __post_init__(self) -> None:
        base = os.getpriority(os.PRIO_PROCESS, 0)
        self._patient = ThreadPoolExecutor(1, initializer=_lower, initargs=(base + PATIENT,))
        self._patient.submit(int).result()  # start it before this thread's priority changes
        _lower(base + URGENT)

    def run(self, job: Callable[[], Result]) -> Result:
        """Run a job and return its result; exceptions propagate."""
        measure = self.share or measured
        result: Result
        if self.urgent:
            result, share = measure(job)
            self.urgent = share < FREE
        else:
            result, share = self._patient.submit(measure, job).result()
            self.urgent = share < STARVED
        return result


def measured(job: Callable[[], Result]) -> tuple[Result, float]:
    """Run a job; return its result and the share of a core that it and its children got."""
    start, before = time.perf_counter(), _seconds()
    result = job()
    return result, (_seconds() - before) / max(time.perf_counter() - start, 1e-9)


def _seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_THREAD, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def _lower(niceness: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(niceness, 19))
