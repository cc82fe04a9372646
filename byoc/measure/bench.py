"""The processes, servers and files of measurements."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..process.fork_pool import Died, ForkPool, JobFailed
from ..process.temporary_folder import TemporaryFolder
from .local_servers import LocalServers
from .measure import Measure
from .measure_jobs import NotLoaded, OnServer, Server, Unreachable
from .measured import Excluded, MeasureError, Result

#: The number of servers to try, if they end before they are reached.
ATTEMPTS = 3
#: Seconds beyond the server's own limit after which a session is given up.
GRACE = 15.0


class Bench:
    """Runs jobs in separate processes, and times them on the servers of a fleet or on local ones.

    Close it, then remove it. ``modules`` are imported where jobs run.
    """

    def __init__(self, how: Measure, modules: Sequence[str] = ()) -> None:
        self.how = how
        self.folder = TemporaryFolder("opinfo-measure-")
        self.numbers = itertools.count()
        self.closed = threading.Event()
        self.pool = ForkPool(self.folder.path, how.threads, (OnServer.__module__, *modules))
        local = how.tracker is None
        self.local = LocalServers(self.pool, how.number, how.on_gpu) if local else None
        self.tracker = how.tracker if self.local is None else self.local.address

    def close(self) -> None:
        """End all jobs and servers."""
        self.closed.set()
        if self.local is not None:
            self.local.close()
        self.pool.close()

    def remove(self) -> None:
        """Remove the files."""
        self.folder.remove()

    def path(self, name: str) -> Path:
        """The path of a new file; its name has a number before the suffix."""
        stem, dot, suffix = name.partition(".")
        return self.folder.path / f"{stem}{next(self.numbers)}{dot}{suffix}"

    def run(self, job: Any, timeout: float, what: str) -> Any:
        """The result of a job; `Excluded` if ``what``, which it runs, hangs or crashes."""
        try:
            return self.pool.run(job, timeout)
        except TimeoutError as error:
            return Excluded(f"{what} hangs: {error}")
        except Died as error:
            return Excluded(f"{what} crashes: {error}")
        except JobFailed as error:
            raise MeasureError(str(error)) from error

    def timed(self, target: Any, job: Callable[[Server], OnServer]) -> Result | NotLoaded:
        """The result of a job that times code for a target on a server; ``job`` takes the server.

        Raises `MeasureError` if no server can be reached.
        """
        assert self.tracker is not None
        kind = str(tvm.target.Target(target).kind.name)
        device = "cpu" if kind in ("llvm", "c") else kind
        timeout, reason = self.how.timeout, ""
        for _ in range(ATTEMPTS):
            address = self.tracker.request(self.how.wait, self.closed)
            task = job(Server(*address, device, self.how.effort))
            result = self.run(task, timeout + GRACE, "what talks to its server")
            if not isinstance(result, Unreachable):
                return result  # type: ignore[no-any-return]
            reason = result.reason
        raise MeasureError(f"tracker {self.tracker}: servers cannot be reached: {reason}")
