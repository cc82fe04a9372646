"""Libraries with code of backends, loaded in a fork first: one that crashes there ends the fork.

The fork only runs what libraries run when they are opened. What is handed constants is called in
this process: in a fork of one that has used OpenMP it would wait for threads that are not there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from ..process.fork import forked
from ..process.status import signal_name
from .arithmetic import Arithmetic

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

    def silent() -> bytes:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        faulthandler.disable()
        reason = ""
        with contextlib.suppress(Exception):  # it is raised again where the fork was made
            reason = work()
        return END + reason.encode()

    try:
        text, code = forked(silent, SECONDS)
    except TimeoutError as e:
        raise LoadError(str(e)) from None
    if not text:
        how = f"status {code}" if code >= 0 else signal_name(-code)
        raise LoadError(f"it ends the process {'with' if code >= 0 else 'by'} {how}")
    if reason := text.removeprefix(END).decode():
        raise LoadError(reason)
