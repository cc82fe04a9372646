"""Work in a fork of this process: it may crash, hang or end the process."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from .time_limit import TimeLimit

#: Seconds between two checks of a silent fork.
PAUSE = 0.02


def forked(work: Callable[[], bytes], seconds: float) -> tuple[bytes, int]:
    """The result of ``work``, and the exit status of the fork that ran it: ``-n`` for signal ``n``.

    Check both: code that ends the process may choose any status.

    Args:
        work: Run by the fork only; if it raises, the result is empty and the status is 1.
        seconds: The limit, of CPU time or of idling.

    Raises:
        TimeoutError: The fork took longer, and was killed.
    """
    end, write = os.pipe()
    try:
        try:
            pid = os.fork()
            if pid == 0:
                os.close(end)
                _child(work, write)
        finally:
            os.close(write)
        os.set_blocking(end, False)
        return _answer(pid, end, TimeLimit(pid, seconds))
    finally:
        os.close(end)


def _child(work: Callable[[], bytes], write: int) -> NoReturn:
    try:
        answer = work()
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    finally:
        os._exit(1)


def _answer(pid: int, end: int, limit: TimeLimit) -> tuple[bytes, int]:
    """All output until the fork ends; a process that it leaves behind may hold the pipe open."""
    poll = select.poll()  # select only takes descriptors below 1024
    poll.register(end, select.POLLIN)
    parts: list[bytes] = []
    while True:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        try:
            got = os.read(end, 1 << 20)  # all that is in the pipe
        except BlockingIOError:
            got = None
        if got:
            parts.append(got)
        if ended_pid:
            return b"".join(parts), os.waitstatus_to_exitcode(status)
        if got:
            continue
        if limit.is_over():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"it exceeded the limit of {limit.seconds:g} s")
        if got is None:
            poll.poll(1e3 * PAUSE)
        else:  # the pipe is closed, which the poll would say at once
            time.sleep(1e-3)
