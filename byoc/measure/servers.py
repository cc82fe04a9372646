"""Servers on this machine under a tracker of its own; one whose session crashed is replaced."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import uuid

from .jobs import Serve
from .processes import Process, Processes
from .result import MeasureError
from .tracker import LocalTracker, Tracker

#: Seconds before a server that ended at once is started again.
PAUSE = 0.5


class LocalServers:
    """``number`` servers of ``threads`` threads, each on CPUs of its own where there are enough."""

    def __init__(self, processes: Processes, number: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.tracker = LocalTracker(f"opinfo-{uuid.uuid4().hex[:8]}")
        self.closed = threading.Event()
        available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        for k in range(number):
            own = available[k * threads : (k + 1) * threads]
            self._start(own if len(available) >= number * threads else [])

    @property
    def address(self) -> Tracker:
        return self.tracker.address

    def close(self) -> None:
        """The processes are ended by their owner."""
        self.closed.set()
        self.tracker.close()

    def _start(self, cpus: list[int]) -> None:
        address = self.address
        count = str(self.threads)
        env = {"TVM_NUM_THREADS": count, "OMP_NUM_THREADS": count}
        again = functools.partial(self._ended, cpus, time.monotonic())
        self.processes.start(Serve((address.host, address.port), address.key), cpus=cpus,
                             env=env, ended=again)  # fmt: skip

    def _ended(self, cpus: list[int], begun: float, _: Process) -> None:
        """Called by the thread that reads what the processes say: it must not wait."""
        pause = PAUSE if time.monotonic() - begun < PAUSE else 0.0
        timer = threading.Timer(pause, self._again, [cpus])
        timer.daemon = True
        timer.start()

    def _again(self, cpus: list[int]) -> None:
        if not self.closed.is_set() and not self.processes.gone:
            with contextlib.suppress(MeasureError):  # they went in this moment
                self._start(cpus)
