"""Loading libraries with backends' code, first in a fork: a crash does not end this process.

The fork only runs the static constructors. Functions that take constants run in this process: in a
fork of a process that has used OpenMP, they would wait for threads that do not exist there. Those
that build models run in another process (`resolve_apart`).
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from ...process.fork import forked
from ...process.status import signal_name
from .float_environment import FloatEnvironment
from .resolve_apart import MARK, resolve_apart

#: Time limit for loading a library in seconds, of CPU time or of idling.
SECONDS = 60.0
#: What the fork sends when it has finished.
END = b"."


class LoadError(RuntimeError):
    """Loading a library ends or changes the process, or hangs; the message is one line."""


def load_checked(library: str, device: Any, runs_elsewhere: bool = False) -> Any:
    """Load a library, and let a virtual machine resolve all its symbols.

    Without ``os.fork``, and for GPUs, whose driver does not work in a fork, it is loaded directly.

    Args:
        library: The path of the library.
        device: The device of the virtual machine.
        runs_elsewhere: The caller runs the library in another process next, so runtimes build their
            models there only.

    Raises:
        LoadError: The library crashes, hangs, or changes how the process computes.
    """
    before = FloatEnvironment()

    def opened() -> str:
        ctypes.CDLL(os.path.abspath(library))  # TVM would also copy all constants
        return before.changed()

    if hasattr(os, "fork") and device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        _survives(opened)
    with before.kept():
        loaded = tvm.runtime.load_module(library)
        resolved = False
        if loaded.implements_function(MARK, query_imports=True):
            resolved, problem = (True, "") if runs_elsewhere else resolve_apart(library, SECONDS)
            if problem:
                raise LoadError(problem)
        if not resolved:
            relax.VirtualMachine(loaded, device)
        if reason := before.changed():
            raise LoadError(reason)
    return loaded


def check_opens(library: str) -> None:
    """Resolve all symbols of a library for a device that this machine does not have.

    Raises:
        LoadError: A symbol or a library is missing; the message is the dynamic linker's.
    """

    def opened() -> str:
        try:
            ctypes.CDLL(os.path.abspath(library))
        except OSError as error:
            return str(error)
        return ""

    _survives(opened)


def _survives(work: Callable[[], str]) -> None:
    """Raises `LoadError` unless a fork of this process completes ``work``.

    ``work`` returns the problem, or an empty string. The exit status proves nothing, as a library
    may end the process with any status.
    """

    def silent() -> bytes:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        faulthandler.disable()
        reason = ""
        with contextlib.suppress(Exception):  # loading it in this process raises it again
            reason = work()
        return END + reason.encode()

    try:
        text, code = forked(silent, SECONDS)
    except TimeoutError as error:
        raise LoadError(str(error)) from None
    if not text:
        how = f"status {code}" if code >= 0 else signal_name(-code)
        raise LoadError(f"it ends the process {'with' if code >= 0 else 'by'} {how}")
    if reason := text.removeprefix(END).decode():
        raise LoadError(reason)
