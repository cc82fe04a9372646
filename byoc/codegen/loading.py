"""Libraries with code of backends, loaded in a fork first: one that crashes there ends the fork.

The fork only runs what libraries run when they are opened. What is handed constants is called in
this process: in a fork of one that has used OpenMP it would wait for threads that are not there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import time
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from ...analysis.support.patience import Patience
from .arithmetic import Arithmetic
from .toolchain import signal_name

#: How long a library may take to be opened, of CPU time or doing nothing.
SECONDS = 60.0
#: What a fork says when it gets to its end.
END = b"."


class LoadError(RuntimeError):
    """A library that ends the process that loads it, changes it or hangs; one line."""


def tried(library: str, device: Any) -> Any:
    """The library, after a virtual machine has found in it all that it calls.

    Raises `LoadError`, and what TVM raises. Without ``os.fork``, and for a GPU, whose driver
    a fork cannot use, it is loaded at once.
    """
    before = Arithmetic()

    def opened() -> str:
        tvm.runtime.load_module(library)
        return before.changed()

    if hasattr(os, "fork") and device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        _survives(opened)
    with before.kept():
        loaded = tvm.runtime.load_module(library)
        relax.VirtualMachine(loaded, device)
        if reason := before.changed():
            raise LoadError(reason)
    return loaded


def _survives(work: Callable[[], str]) -> None:
    """Raises `LoadError` unless a fork of this process lives to the end of ``work``.

    ``work`` returns what is wrong, or an empty string. The exit status says nothing of it: a
    library may end the process with any.
    """
    end, write = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _fork(work, write)
        os.close(write)
        status = _status(pid)
        os.set_blocking(end, False)  # a process that the library started may have the other end
        with contextlib.suppress(BlockingIOError):
            if text := os.read(end, 1 << 12):
                if reason := text.removeprefix(END).decode():
                    raise LoadError(reason)
                return
    finally:
        os.close(end)
    if os.WIFSIGNALED(status):
        raise LoadError(f"it ends the process by {signal_name(os.WTERMSIG(status))}")
    raise LoadError(f"it ends the process with status {os.WEXITSTATUS(status)}")


def _fork(work: Callable[[], str], write: int) -> None:
    """Do the work and say so; does not return."""
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        faulthandler.disable()
        reason = ""
        with contextlib.suppress(Exception):  # it is raised again where the fork was made
            reason = work()
        os.write(write, END + reason.encode())
    finally:
        os._exit(0)


def _status(pid: int) -> int:
    """How the fork ended. Raises `LoadError` where it had to be killed."""
    patience = Patience(pid, SECONDS)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if patience.is_over():
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise LoadError(f"it did not end within {SECONDS:g} s")
        time.sleep(0.001)
