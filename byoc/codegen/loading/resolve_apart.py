"""Resolving a library's symbols in another process first, where a runtime builds models then.

A runtime compiles graphs that it has never seen, and may crash on one. A fork of this process would
wait for threads that do not exist there, so the other process is a fork of one that never used any.
"""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass

import tvm
from tvm import relax

from ...process.fork_pool import Died, ForkPool, JobFailed
from ...process.temporary_folder import TemporaryFolder
from .float_environment import FloatEnvironment

#: A library that exports a function of this name builds models when its symbols are resolved.
MARK = "opinfo_builds_models"


@dataclass(frozen=True)
class _Resolve:
    library: str

    def run(self) -> tuple[bool, str]:
        """Whether the symbols were resolved, and what that changed, as one line."""
        before = FloatEnvironment()
        try:
            relax.VirtualMachine(tvm.runtime.load_module(self.library), tvm.cpu())
        except Exception:  # the caller's process raises it again
            return False, ""
        return True, before.changed()


def resolve_apart(library: str, seconds: float) -> tuple[bool, str]:
    """Whether the symbols of a library can be resolved, and the problem; empty if there is none.

    Without a problem they may still be unresolved: what they need may exist in this process only.

    Args:
        library: The path of a library.
        seconds: The time limit.
    """
    if not hasattr(os, "fork"):
        return False, ""
    try:
        found: tuple[bool, str] = _pool().run(_Resolve(os.path.abspath(library)), seconds)
    except Died as error:
        return False, f"it ends the process by {error}"
    except TimeoutError as error:
        return False, str(error)
    except JobFailed:
        return False, "it ends the process"
    return found


_shared: tuple[ForkPool, TemporaryFolder] | None = None
_guard = threading.Lock()


def _pool() -> ForkPool:
    global _shared
    with _guard:
        if _shared is not None and _shared[0].ended:
            _close()
        if _shared is None:
            folder = TemporaryFolder("opinfo-resolve-")
            _shared = ForkPool(folder.path, modules=(__name__,)), folder
            atexit.register(_close)
        return _shared[0]


def _close() -> None:
    global _shared
    if _shared is not None:
        pool, folder = _shared
        _shared = None
        pool.close()
        folder.remove()


def _forget() -> None:
    """A forked process does not own the pool of its parent."""
    global _shared, _guard
    _shared, _guard = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
