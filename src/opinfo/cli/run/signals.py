"""Signals that end a command: they print one line and leave no children or temporary files.

Python runs signal handlers only between bytecode instructions, so not while TVM compiles. But C
writes the signal's number to a pipe at once. A thread reads it, gives the command time to end, and
otherwise ends the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO

#: The line that each signal prints.
NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}
#: Seconds that a command has to end on its own.
GRACE = 2.0
PROCESSES = Path("/proc")
#: Linux: processes whose parents ended become children of this process, which ends them too.
_PR_SET_CHILD_SUBREAPER = 36


class Signals:
    """Converts signals to `KeyboardInterrupt` within its context; ``number`` is the first one."""

    def __init__(self, stderr: TextIO, folder: str | None) -> None:
        self.number: int | None = None
        self._stderr, self._folder = stderr, folder
        self._before: dict[int, Any] = {}
        self._once = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Signals:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread may have handlers
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._interrupt)
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._owner = os.getpid()
        if sys.platform == "linux":
            ctypes.pythonapi.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # already open
        threading.Thread(target=self._watch, name="opinfo signals", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        if not self._before and not hasattr(self, "_read"):
            return
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._write)  # ends the thread

    def end(self) -> None:
        """Print the line and end the process, without waiting for cleanup at exit."""
        assert self.number is not None
        if not self._once.acquire(blocking=False):
            threading.Event().wait()  # the thread is ending the process
        kill_descendants()
        with contextlib.suppress(OSError, ValueError):
            self._stderr.write(f"opinfo: {NAMES[signal.Signals(self.number).name]}\n")
            self._stderr.flush()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(128 + self.number)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        repeated, self.number = self.number is not None, self.number or number
        if repeated and os.getpid() == self._owner:
            self.end()
        raise KeyboardInterrupt

    def _watch(self) -> None:
        while got := os.read(self._read, 1):
            if got[0] in self._before:
                if self._ended.wait(GRACE):
                    break
                self.number = self.number or got[0]
                self.end()
        os.close(self._read)


@contextlib.contextmanager
def scratch() -> Iterator[str | None]:
    """Create a folder for all temporary files of this process and its children; remove it later."""
    try:
        folder = tempfile.mkdtemp(prefix="opinfo-")
    except OSError:  # code that needs temporary files reports it
        yield None
        return
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    try:
        yield folder
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop("TMPDIR", None)
        if before[1] is not None:
            os.environ["TMPDIR"] = before[1]
        shutil.rmtree(folder, ignore_errors=True)


def kill_descendants() -> None:
    """Kill all descendants of this process."""
    for _ in range(2):  # a child may have forked meanwhile
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """Return the descendants of a process from /proc; none on systems without it."""
    children: dict[int, list[int]] = {}
    for path in PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    descendants, stack = [], [root]
    while stack:
        new = children.get(stack.pop(), [])
        descendants += new
        stack += new
    return descendants
