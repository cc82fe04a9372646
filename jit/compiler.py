"""The compiler process as seen by who asks it: one job at a time, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from .folder import Folder
from .patience import Patience


class CompileFailed(RuntimeError):
    """A kernel was not compiled; the message is the reason."""


class CompilerDied(CompileFailed):
    """The process crashed, hung or answered nonsense, with this job alone."""


class Interrupted(CompileFailed):
    """Something else ended the process, or it did not start: the job may be tried again."""


#: What kills a process from outside: an administrator, a limit on memory, the end of a terminal.
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
#: Seconds before a process that did not start is started again, at first and at most.
FIRST, LAST = 0.5, 600.0


@dataclass
class Compiler:
    """Starts the process when it is first needed and again after it died.

    Several sessions may share one; it is closed by who made it. ``seconds`` is what a job may take,
    ``starting`` what the process may take to be ready, both of a CPU that it has (see `Patience`),
    ``idle`` how long it stays without a job: it takes some 450 MiB. ``tuned`` is a database of
    `opinfo tune`, whose schedules go before those by structure.

    ``toolchain`` is what kernels are made by, as the process says: its sources may be newer than
    those of this process.
    """

    seconds: float = 60.0
    starting: float = 120.0
    idle: float = 120.0
    tuned: str | Path | None = None
    check: bool = True
    toolchain: str = ""
    command: tuple[str, ...] = (sys.executable, "-m", "opinfo.jit.worker")
    _process: subprocess.Popen[bytes] | None = None
    _sent: set[str] = field(default_factory=set)
    _rest: bytes = b""
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folder: Folder | None = None  # of what a process that dies leaves
    _owner: int = 0
    _used: float = 0.0
    _jobs: int = 0  # that this process was asked
    _failures: int = 0  # of starts, one after the other
    _pause: float = 0.0  # until when none is started

    def compile(self, digest: str, text: str, values: Mapping[str, int], target: str,
                library: Path) -> tuple[str, float]:  # fmt: skip
        """Build a kernel into ``library``: the rule of its schedule, and milliseconds.

        Raises :class:`CompileFailed` where it fails, crashes, takes too long or is wrong. A process
        that crashes after other jobs may have been left damaged by them: a new one decides.
        """
        job = digest, text, values, target, library
        with self._lock:
            try:
                self._start()
                fresh = self._jobs == 0
                try:
                    return self._compiled(*job)
                except CompilerDied:
                    if fresh:
                        raise
                self._start()
                return self._compiled(*job)
            finally:
                self._used = time.monotonic()

    def _compiled(self, digest: str, text: str, values: Mapping[str, int], target: str,
                  library: Path) -> tuple[str, float]:  # fmt: skip
        self._jobs += 1
        job = {"function": digest, "text": None if digest in self._sent else text,
               "values": dict(values), "target": target, "library": str(library),
               "check": self.check, "tuned": self.tuned and str(self.tuned)}  # fmt: skip
        answer = self._ask(job)
        if "error" in answer:
            raise CompileFailed(answer["error"])
        self._sent.add(digest)
        return str(answer["rule"]), float(answer["milliseconds"])

    @property
    def schedules(self) -> str:
        """What kernels depend on beside their functions and this source: the database's version."""
        if self.tuned is None:
            return ""
        from .tuned import Known

        return Known(self.tuned).version

    def stop(self) -> None:
        """End the process, from any thread; a job that it has fails."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def rest(self) -> None:
        """End a process that had no job for long; the next job starts another one."""
        if self._process is None or time.monotonic() - self._used < self.idle:
            return
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the process and let go of it; of the thread that asks."""
        if self._process is None or self._owner != os.getpid():
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read is lost
                    pipe.close()
        self._process, self._sent, self._rest = None, set(), b""
        if self._folder is not None:
            self._folder.remove()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> None:
        if self._stopped:
            raise CompileFailed("the compiler was stopped")
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        if time.monotonic() < self._pause:
            raise Interrupted(f"the compiler process did not start {self._failures} times")
        self._owner, self._jobs = os.getpid(), 0
        self._folder = Folder("opinfo-compiler-")
        environment = {**os.environ, "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                       "TMPDIR": str(self._folder.path)}  # fmt: skip
        try:
            self._process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, env=environment)  # fmt: skip
            told = self._answer(self.starting, "starting")
        except (CompileFailed, OSError) as e:
            self.close()
            self._folder.remove()
            self._pause = time.monotonic() + min(FIRST * 2**self._failures, LAST)
            self._failures += 1
            raise Interrupted(f"the compiler process did not start: {e}") from e
        self.toolchain, self._failures = str(told.get("toolchain", "")), 0

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._ended()  # between two jobs, of which none is to blame
        return self._answer(self.seconds, "compiling")

    def _answer(self, seconds: float, doing: str) -> dict[str, Any]:
        """The next line; the process is ended where none comes in time."""
        assert self._process is not None and self._process.stdout is not None
        patience = Patience(self._process.pid, seconds)
        pipe = self._process.stdout.fileno()
        there = select.poll()  # select takes no descriptor from 1024 on
        there.register(pipe, select.POLLIN)
        while b"\n" not in self._rest:
            if not there.poll(1e3 * patience.next):
                if patience.is_over():
                    self.close()
                    raise CompilerDied(f"{doing} took more than {seconds:g} s; it was stopped")
                continue
            got = os.read(pipe, 1 << 16)
            if not got:
                self._ended()
            self._rest += got
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise CompilerDied(f"the compiler process answered {line[:80]!r}")
        return answer

    def _ended(self) -> NoReturn:
        """Of a process that closed its pipe."""
        assert self._process is not None
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:  # it lives on without one
            code = 0
        self.close()
        if -code in _OUTSIDE:
            raise Interrupted(f"the compiler process was ended by {signal.Signals(-code).name}: "
                              "someone killed it, or a limit on memory")  # fmt: skip
        raise CompilerDied(f"the compiler process ended with {_signal(code)}")


def _signal(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"
