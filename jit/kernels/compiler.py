"""The compiler process as seen by who asks it: one job at a time, with a time limit."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ...byoc.process.line_process import LineProcess, ProcessDied


class CompileFailed(RuntimeError):
    """A kernel was not compiled; the message is the reason."""


class CompilerDied(CompileFailed, ProcessDied):
    """The process crashed, hung or answered nonsense, with this job alone."""


class Interrupted(CompileFailed):
    """Something else ended the process, or it did not start: the job may be tried again."""


class NotStarted(Interrupted):
    """There is no process for ``seconds`` more; ``soon``: it is not given up. ``tried``: it was
    started for this job."""

    def __init__(self, why: str, seconds: float, soon: bool, tried: bool) -> None:
        super().__init__(why)
        self.seconds, self.soon, self.tried = seconds, soon, tried


#: What kills a process from outside: an administrator, a limit on memory, the end of a terminal.
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
#: Seconds before a process that did not start is started again, at first and at most; after so many
#: times nobody waits for it.
FIRST, LAST, TIMES = 0.5, 60.0, 6


@dataclass
class Compiler(LineProcess):
    """Compiles kernels in a process of its own.

    Several sessions may share one; whoever creates it closes it. The process takes about 450 MiB.

    Attributes:
        seconds: CPU seconds that a job may take.
        starting: CPU seconds that the process may take to start.
        idle: Seconds without a job after which the process ends.
        command: How the process is started.
        tuned: A database of `opinfo tune`, whose schedules are preferred.
        toolchain: What kernels are compiled with, as the process reports it.
        check: Compare each kernel with the generic one before it serves.
    """

    tuned: str | Path | None = None
    check: bool = True
    toolchain: str = ""
    command: tuple[str, ...] = (sys.executable, "-m", "opinfo.jit.kernels.worker")
    _sent: set[str] = field(default_factory=set)
    _jobs: int = 0  # that this process was asked
    _failures: int = 0  # of starts, one after the other
    _pause: float = 0.0  # until when none is started

    name: ClassVar[str] = "compiler"
    died: ClassVar[type[Exception]] = CompilerDied

    def compile(self, digest: str, text: str, values: Mapping[str, int], target: str,
                library: Path) -> tuple[str, float]:  # fmt: skip
        """Build a kernel into ``library``: the rule of its schedule, and milliseconds.

        Raises `CompileFailed` where it fails, crashes, takes too long or is wrong. A process
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
               "values": dict(values), "target": target, "library": str(library.absolute()),
               "check": self.check,
               "tuned": self.tuned and str(Path(self.tuned).absolute())}  # fmt: skip
        answer = self._ask(job, "compiling")
        if "error" in answer:
            raise CompileFailed(answer["error"])
        self._sent.add(digest)
        return str(answer["rule"]), float(answer["milliseconds"])

    @property
    def schedules(self) -> str:
        """What kernels depend on beside their functions and this source: the database's version."""
        if self.tuned is None:
            return ""
        from ..tune.schedule_database import OpenDatabase

        return OpenDatabase(self.tuned).version

    def close(self) -> None:
        """End the process and let go of it; of the thread that asks."""
        super().close()
        if self._process is None:
            self._sent = set()

    def _start(self) -> None:
        if self._stopped:
            raise CompileFailed("the compiler was stopped")
        if self._runs():
            return
        self.close()
        if (left := self._pause - time.monotonic()) > 0:
            soon = self._failures <= TIMES
            raise NotStarted(f"the compiler process did not start {self._failures} times", left,
                             soon, tried=False)  # fmt: skip
        self._jobs = 0
        try:
            ready = self._spawn()
        except (CompileFailed, OSError) as e:
            seconds = min(FIRST * 2**self._failures, LAST)
            self._pause = time.monotonic() + seconds
            self._failures += 1
            raise NotStarted(f"the compiler process did not start: {e}", seconds,
                             self._failures <= TIMES, tried=True) from e  # fmt: skip
        self.toolchain, self._failures = str(ready.get("toolchain", "")), 0

    def exited(self, code: int) -> Exception:
        """A process that something else ended is not the job's fault."""
        if -code in _OUTSIDE:
            return Interrupted(f"the compiler process was ended by {signal.Signals(-code).name}: "
                               "someone killed it, or a limit on memory")  # fmt: skip
        return super().exited(code)
