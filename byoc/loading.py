"""Libraries with code of backends, loaded in a fork first: one that crashes there ends the fork.

The fork only runs what libraries run when they are opened. What is handed constants is called in
this process: in a fork of one that has used OpenMP it would wait for threads that are not there.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from .toolchain import signal_name

#: How long a library may take to be opened.
SECONDS = 60.0


class LoadError(RuntimeError):
    """A library that ends the process that loads it, or hangs; the message is one line."""


def tried(library: str, device: Any) -> Any:
    """The library, after a virtual machine has found in it all that it calls.

    Raises :class:`LoadError`, and what TVM raises. Without ``os.fork``, and for a GPU, whose driver
    a fork cannot use, it is loaded at once.
    """
    if hasattr(os, "fork") and device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        _survives(lambda: tvm.runtime.load_module(library))
    loaded = tvm.runtime.load_module(library)
    relax.VirtualMachine(loaded, device)
    return loaded


def _survives(work: Callable[[], object]) -> None:
    """Raises :class:`LoadError` unless a fork of this process lives to the end of ``work``."""
    pid = os.fork()
    if pid == 0:
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            faulthandler.disable()
            work()
        finally:  # what it raises is raised here again
            os._exit(0)
    end = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise LoadError(f"it did not end within {SECONDS:g} s")
        time.sleep(0.001)
    if os.WIFSIGNALED(status):
        raise LoadError(f"it ends the process by {signal_name(os.WTERMSIG(status))}")
    if os.WEXITSTATUS(status):
        raise LoadError(f"it ends the process with status {os.WEXITSTATUS(status)}")
