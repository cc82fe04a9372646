"""The process that jobs are forked from: it imports everything, and runs no job itself.

It reads lines of JSON, ``{"start": id, "job": path}`` and ``{"kill": id}``, and writes
``{"id": id, "status": n}`` when a job has ended. The job is a pickle at the path, its result a
pickle at the path with ``.out`` appended. Each job leads a process group, so its children are
killed with it; all jobs are killed when the input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...analysis.support.garbage import rare_collections
from .without_torch import is_own, leave_out_torch


class ForkServer:
    """Obeys commands on its standard input: fork a job, kill one; reports those that end."""

    def __init__(self) -> None:
        self.answers = os.dup(1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        self.running: dict[int, int] = {}
        self.ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)

    def loop(self) -> None:
        """Obey commands until the input ends, then kill what still runs."""
        buffer = b""
        while True:
            readable, _, _ = select.select([0, self.ended], [], [])
            if self.ended in readable:
                os.read(self.ended, 4096)
                self.reap()
            if 0 in readable:
                got = os.read(0, 1 << 16)
                if not got:
                    break
                *lines, buffer = (buffer + got).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
        for pid in self.running:
            self.kill(pid)

    def obey(self, order: Mapping[str, Any]) -> None:
        """Fork a job, or kill the one with a number."""
        if "kill" in order:
            for pid, number in list(self.running.items()):
                if number == order["kill"]:
                    self.kill(pid)
            return
        pid = os.fork()
        if pid == 0:
            self.child(order)
        with contextlib.suppress(OSError):  # the child may have done so
            os.setpgid(pid, pid)
        self.running[pid] = order["start"]

    def kill(self, pid: int) -> None:
        """Kill a job and its descendants."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def reap(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.kill(pid)  # descendants that still run
            message = {"id": self.running.pop(pid), "status": os.waitstatus_to_exitcode(status)}
            os.write(self.answers, json.dumps(message).encode() + b"\n")

    def child(self, order: Mapping[str, Any]) -> None:
        """Run one job; does not return."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            os.close(self.answers)
            path = Path(order["job"])
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            log = os.open(f"{path}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            job = pickle.loads(path.read_bytes())
            result = pickle.dumps(job.run())
            part = Path(f"{path}.part")
            part.write_bytes(result)
            part.rename(f"{path}.out")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)


def prepare(modules: Sequence[str]) -> None:
    """Import what jobs need before the first fork; failures are logged."""
    if is_own(modules):
        leave_out_torch()
    for name in modules:
        try:
            with rare_collections():
                import_module(name)
        except BaseException:  # a foreign module may raise anything; interrupts are ignored here
            traceback.print_exc()


if __name__ == "__main__":
    server = ForkServer()
    prepare(sys.argv[1:])
    server.loop()
