"""Client of the compiler process: one job at a time, with a time limit."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ...byoc.process.line_process import LineProcess, ProcessDied
from ...byoc.process.temporary_folder import lacks_room
from .generic_kernel import GenericKernel


class CompileFailed(RuntimeError):
    """A kernel was not compiled; the message says why."""


class CompilerDied(CompileFailed, ProcessDied):
    """The process crashed, hung or sent an invalid answer on its first job."""


class Interrupted(CompileFailed):
    """The process was killed from outside or did not start; the job may be retried."""


class NotStarted(Interrupted):
    """The process does not start.

    ``seconds`` is the time until the next attempt, ``soon`` whether waiting for it is worthwhile,
    and ``tried`` whether a start was attempted for this job.
    """

    def __init__(self, why: str, seconds: float, soon: bool, tried: bool) -> None:
        super().__init__(why)
        self.seconds, self.soon, self.tried = seconds, soon, tried


#: Signals from outside: an administrator, a memory limit, a closed terminal.
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
#: First and longest pause in seconds before a failed start is repeated, and the number of failures
#: after which callers stop waiting.
FIRST, LAST, TIMES = 0.5, 60.0, 6


@dataclass
class Compiler(LineProcess):
    """Compiles kernels in a separate process.

    Several sessions may share one; its creator closes it. The process takes about 450 MiB.

    Attributes:
        seconds: Limit on the CPU seconds of a job.
        starting: Limit on the CPU seconds of the start.
        idle: Seconds without a job after which the process ends.
        command: The command line that starts the process.
        tuned: A database of `opinfo tune`; its schedules are preferred.
        toolchain: Versions that kernels depend on, as the process reports them.
        check: Compare each kernel with the generic one before it serves.
        winograd: Let kernels that are compared use Winograd's minimal filtering where it is
            faster. It rounds otherwise than a direct convolution.
    """

    tuned: str | Path | None = None
    check: bool = True
    winograd: bool = True
    toolchain: str = ""
    command: tuple[str, ...] = (sys.executable, "-m", "opinfo.jit.kernels.worker")
    _sent: set[str] = field(default_factory=set)
    _jobs: int = 0  # jobs sent to this process
    _failures: int = 0  # consecutive failed starts
    _pause: float = 0.0  # time before which no start is attempted
    _cramped: str | None = None  # why files were limited when it started: it inherits limits

    name: ClassVar[str] = "compiler"
    died: ClassVar[type[Exception]] = CompilerDied

    def compile(
        self, digest: str, text: str, values: Mapping[str, int], target: str, library: Path,
        generic: GenericKernel | None = None,
    ) -> tuple[str, float]:  # fmt: skip
        """Build a kernel; return the rule of its schedule, and milliseconds.

        For the rule "generic", no library is written: the generic kernel is as fast at this shape.
        If the process dies after earlier jobs, which may have damaged it, the job is repeated in a
        new process.

        Args:
            digest: The digest of ``text``; the process keeps the PrimFuncs that it has read.
            text: The PrimFunc as JSON.
            values: The value of each symbolic size.
            target: TVM's target, as text.
            library: The file to write.
            generic: The generic kernel in the library that is served; None compiles it when it is
                needed.

        Raises:
            CompileFailed: The build fails, crashes or times out, or the kernel is wrong.
            Interrupted: The process lacked space for files when it started.
        """
        job = digest, text, values, target, library, generic
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
            except CompileFailed as error:
                if self._cramped is None or isinstance(error, Interrupted):
                    raise
                self.close()
                raise Interrupted(f"no space for a kernel: {self._cramped}") from error
            finally:
                self._used = time.monotonic()

    def _compiled(self, digest: str, text: str, values: Mapping[str, int], target: str,
                  library: Path, generic: GenericKernel | None) -> tuple[str, float]:  # fmt: skip
        self._jobs += 1
        job = {"function": digest, "text": None if digest in self._sent else text,
               "values": dict(values), "target": target, "library": str(library.absolute()),
               "check": self.check, "winograd": self.winograd,
               "generic": generic and generic.to_json(),
               "tuned": self.tuned and str(Path(self.tuned).absolute())}  # fmt: skip
        answer = self._ask(job, "compiling")
        if "error" in answer:
            raise CompileFailed(answer["error"])
        self._sent.add(digest)
        return str(answer["rule"]), float(answer["milliseconds"])

    @property
    def schedules(self) -> str:
        """What schedules depend on, a part of a kernel's key: the tuning database, and options."""
        direct = "" if self.check and self.winograd else "direct "
        if self.tuned is None:
            return direct
        from ..tune.schedule_database import OpenDatabase

        return direct + OpenDatabase(self.tuned).version

    def close(self) -> None:
        """End the process; called by the thread that uses it."""
        super().close()
        if self._process is None:
            self._sent = set()

    def _start(self) -> None:
        if self._stopped:
            raise CompileFailed("the compiler was stopped")
        if self._runs():
            return
        self.close()
        if (pause := self._pause - time.monotonic()) > 0:
            soon = self._failures <= TIMES
            raise NotStarted(f"the compiler process failed to start {self._failures} times", pause,
                             soon, tried=False)  # fmt: skip
        self._jobs = 0
        try:
            self._cramped = lacks_room(Path(tempfile.gettempdir()))
            greeting = self._spawn()
        except (CompileFailed, OSError) as error:
            seconds = min(FIRST * 2**self._failures, LAST)
            self._pause = time.monotonic() + seconds
            self._failures += 1
            raise NotStarted(f"the compiler process failed to start: {error}", seconds,
                             self._failures <= TIMES, tried=True) from error  # fmt: skip
        self.toolchain, self._failures = str(greeting.get("toolchain", "")), 0

    def exited(self, code: int) -> Exception:
        """Return the error of an exit code: a kill from outside is not the job's fault."""
        if -code in _OUTSIDE:
            return Interrupted(f"the compiler process was killed by {signal.Signals(-code).name}, "
                               "by a user or a memory limit")  # fmt: skip
        return super().exited(code)
