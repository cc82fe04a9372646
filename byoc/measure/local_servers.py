"""Local servers with their own tracker; a server whose session crashed is replaced."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import uuid

from ..process.fork_pool import ForkPool, JobFailed, Process
from .measure_jobs import Serve
from .tracker import LocalTracker, Tracker

#: Seconds before a server that ended at once is restarted.
PAUSE = 0.5


class LocalServers:
    """``number`` servers in processes of a pool, which sets their number of threads.

    If ``on_gpu``, their sessions run code on the GPU.
    """

    def __init__(self, pool: ForkPool, number: int, on_gpu: bool = False) -> None:
        self.pool, self.on_gpu = pool, on_gpu
        self.tracker = LocalTracker(f"opinfo-{uuid.uuid4().hex[:8]}")
        self.closed = threading.Event()
        for _ in range(number):
            self._start()

    @property
    def address(self) -> Tracker:
        return self.tracker.address

    def close(self) -> None:
        """Stop restarting servers, and close the tracker; the pool ends the processes."""
        self.closed.set()
        self.tracker.close()

    def _start(self) -> None:
        serve = Serve((self.address.host, self.address.port), self.address.key, self.on_gpu)
        self.pool.start(serve, functools.partial(self._ended, time.monotonic()))

    def _ended(self, begun: float, _: Process) -> None:
        """Restart a server; must not wait, as the thread that reads from the processes calls it."""
        pause = PAUSE if time.monotonic() - begun < PAUSE else 0.0
        timer = threading.Timer(pause, self._restart)
        timer.daemon = True
        timer.start()

    def _restart(self) -> None:
        if not self.closed.is_set() and not self.pool.ended:
            with contextlib.suppress(JobFailed):  # the pool ended just now
                self._start()
