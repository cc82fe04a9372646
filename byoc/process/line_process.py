"""A child process that takes jobs as lines of JSON and answers them one at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from .spawn import spawn
from .status import ended
from .temporary_folder import TemporaryFolder
from .time_limit import TimeLimit


class ProcessDied(RuntimeError):
    """The process crashed or was stopped."""


@dataclass
class LineProcess:
    """Starts the process when it is first needed, and again after it died.

    A job may take ``seconds``, and starting the process ``starting`` seconds (see `TimeLimit`). The
    process is ended after ``idle`` seconds without a job. It leads a process group: its children
    are killed with it, and an interrupt from the terminal reaches only its owner.
    """

    seconds: float = 60.0
    starting: float = 120.0
    idle: float = 120.0
    command: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    _unread: bytes = b""
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folder: TemporaryFolder | None = None  # for temporary files, also of a process that dies
    _owner: int = 0
    _used: float = 0.0

    name: ClassVar[str] = "process"
    environment: ClassVar[Mapping[str, str]] = {}
    died: ClassVar[type[Exception]] = ProcessDied

    def start(self) -> None:
        """Start the process now instead of with its first job."""
        with self._lock:
            self._start()

    def stop(self) -> None:
        """End the process from any thread; its current job fails."""
        self._stopped = True
        if self._process is not None:
            self._kill(self._process)

    def stop_if_idle(self) -> None:
        """End an idle process; the next job starts a new one."""
        if self._process is None or time.monotonic() - self._used < self.idle:
            return
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the process and release it; for the thread that sends jobs."""
        if self._process is None or self._owner != os.getpid():
            return
        self._kill(self._process)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unread input is lost
                    pipe.close()
        self._process, self._unread = None, b""
        if self._folder is not None:
            self._folder.remove()

    def __del__(self) -> None:
        self.close()

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        if process.returncode is None:
            with contextlib.suppress(OSError):  # it has already ended
                os.killpg(process.pid, signal.SIGKILL)

    def _start(self) -> None:
        if self._stopped:
            raise self.died(f"the {self.name} was stopped")
        if not self._runs():
            self.close()
            self._spawn()

    def _runs(self) -> bool:
        """Whether the process runs and its folder still exists."""
        if self._process is None or self._process.poll() is not None:
            return False
        return self._folder is not None and self._folder.path.exists()

    def _spawn(self) -> dict[str, Any]:
        """Start the process, and return its first answer."""
        self._owner = os.getpid()
        self._folder = TemporaryFolder(f"opinfo-{self.name}-")
        try:
            variables = {"TMPDIR": str(self._folder.path), **self.environment}
            self._process = spawn(self.command, folder=self._folder.path, environment=variables)
            return self._answer(self.starting, "starting")
        except BaseException:
            self.close()
            self._folder.remove()
            raise

    def _ask(self, job: Mapping[str, Any], doing: str) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._ended()  # between two jobs
        return self._answer(self.seconds, doing)

    def _answer(self, seconds: float, doing: str) -> dict[str, Any]:
        """The next line; if none comes in time, the process is ended."""
        limit = self._limit(seconds)
        while b"\n" not in self._unread:
            self._unread += self._more(limit, doing)
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise self.died(f"the {self.name} process answered {line[:80]!r}")
        return answer

    def _bytes(self, count: int, seconds: float, doing: str) -> bytes:
        """The bytes after a line."""
        limit = self._limit(seconds)
        parts, received = [self._unread[:count]], len(self._unread[:count])
        self._unread = self._unread[count:]
        while received < count:
            got = self._more(limit, doing)
            parts.append(got[: count - received])
            self._unread = got[count - received :]
            received += len(parts[-1])
        return b"".join(parts)

    def _limit(self, seconds: float) -> TimeLimit:
        assert self._process is not None
        return TimeLimit(self._process.pid, seconds)

    def _more(self, limit: TimeLimit, doing: str) -> bytes:
        """The next output; if none comes in time, the process is ended."""
        assert self._process is not None and self._process.stdout is not None
        poll = select.poll()  # select only takes descriptors below 1024
        pipe = self._process.stdout.fileno()
        poll.register(pipe, select.POLLIN)
        while not poll.poll(1e3 * limit.next):
            if limit.is_over():
                self.close()
                raise self.died(f"{doing} took more than {limit.seconds:g} s; it was stopped")
        got = os.read(pipe, 1 << 16)
        if not got:
            self._ended()
        return got

    def _ended(self) -> NoReturn:
        """Raise the error of a process that closed its pipe."""
        assert self._process is not None
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:  # it still runs without a pipe
            code = 0
        self.close()
        raise self.exited(code)

    def exited(self, code: int) -> Exception:
        """The exception for a process that ended with a ``Popen.returncode``."""
        return self.died(f"the {self.name} process ended with {ended(code)}")
