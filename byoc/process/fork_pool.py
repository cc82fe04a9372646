"""Jobs in separate processes, for the process that needs their results.

They are forks of one process (`fork_server`), so each starts at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .spawn import spawn
from .status import signal_name


class Process:
    """A started job; ``status`` is its exit status once it has ended, negative for a signal."""

    def __init__(self, number: int, path: Path, ended: Callable[[Process], None] | None) -> None:
        self.number, self.path, self.on_end = number, path, ended
        self.status: int | None = None
        self.finished = threading.Event()

    def result(self) -> Any:
        """The result of the job. Raises `Died` if a signal ended it, else `JobFailed`."""
        output = Path(f"{self.path}.out")
        if output.exists():
            return pickle.loads(output.read_bytes())
        if self.status is not None and self.status < 0:
            raise Died(signal_name(-self.status))
        log = Path(f"{self.path}.log")
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        raise JobFailed(f"a process ended without a result: {lines[-1] if lines else self.status}")


class Died(Exception):
    """A signal ended a process; the message names it."""


class JobFailed(RuntimeError):
    """A process ended without a result, or the pool has ended."""


class ForkPool:
    """Starts jobs of ``threads`` threads, whose files are in ``folder``. Close it after use.

    ``modules`` are imported before the first job: those that define jobs, and those that register
    functions for generated code.
    """

    def __init__(self, folder: Path, threads: int = 1, modules: Sequence[str] = ()) -> None:
        self.folder = folder
        command = [sys.executable, "-m", f"{__package__}.fork_server", *modules]
        with (folder / "server.log").open("wb") as log:
            self.root = spawn(command, threads, stderr=log)
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.running: dict[int, Process] = {}
        self.ended = False
        self.reader = threading.Thread(target=self._read, name="opinfo forks", daemon=True)
        self.reader.start()

    def start(self, job: Any, ended: Callable[[Process], None] | None = None) -> Process:
        """Start a job; another thread calls ``ended`` when it has ended."""
        number = next(self.numbers)
        process = Process(number, self.folder / f"job{number}", ended)
        process.path.write_bytes(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))
        with self.lock:
            self.running[number] = process
        self._order({"start": number, "job": str(process.path)})
        return process

    def run(self, job: Any, timeout: float) -> Any:
        """A job's result. Raises ``TimeoutError`` after killing it, `Died` if it crashed."""
        process = self.start(job)
        try:
            if not process.finished.wait(timeout):
                raise TimeoutError(f"no result within {timeout:g} s")
            if self.ended:
                raise self._lost()
            return process.result()
        finally:
            self.kill(process)
            for suffix in ("", ".out", ".log"):
                Path(f"{process.path}{suffix}").unlink(missing_ok=True)

    def kill(self, process: Process) -> None:
        """Kill a process and its descendants, if it still runs."""
        if not process.finished.is_set():
            with contextlib.suppress(JobFailed):
                self._order({"kill": process.number})

    def close(self) -> None:
        """Kill all jobs."""
        assert self.root.stdin is not None and self.root.stdout is not None
        with self.lock, contextlib.suppress(OSError):
            self.root.stdin.close()
        try:
            self.root.wait(10)
        except subprocess.TimeoutExpired:
            self.root.kill()
            self.root.wait()
        self.reader.join(10)
        self.root.stdout.close()

    def _order(self, order: Mapping[str, Any]) -> None:
        assert self.root.stdin is not None
        try:
            with self.lock:
                self.root.stdin.write(json.dumps(order).encode() + b"\n")
                self.root.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._lost() from error

    def _lost(self) -> JobFailed:
        log = (self.folder / "server.log").read_text(errors="replace").strip().splitlines()
        return JobFailed(f"the processes are gone: {log[-1] if log else 'killed'}")

    def _read(self) -> None:
        assert self.root.stdout is not None
        for line in self.root.stdout:
            message = json.loads(line)
            with self.lock:
                process = self.running.pop(message["id"])
            process.status = message["status"]
            self._end(process)
        self.ended = True
        with self.lock:
            unfinished = list(self.running.values())
        for process in unfinished:
            self._end(process)

    def _end(self, process: Process) -> None:
        process.finished.set()
        if process.on_end is not None:
            process.on_end(process)
