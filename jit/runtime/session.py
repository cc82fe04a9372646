"""Sessions serve calls of a compiled model and compile kernels for its shapes in the background."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections import Counter
from numbers import Real
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ...analysis.support.wording import did_you_mean
from ..kernels.compiler import Compiler
from ..store.store import KernelStore
from ..tune.record import Recording
from .function import Function
from .generation import Generation
from .kernel_manager import Budget, KernelManager
from .library import Sites, loaded
from .session_events import Settled
from .session_stats import SiteStats, Stats

Served = tuple[int, int]
_OPEN: weakref.WeakSet[Session] = weakref.WeakSet()
#: The manager of each served library; the loader shares one copy of a library in a process.
_SERVED: dict[Served, KernelManager | None] = {}
_LOCK = threading.Lock()


class Session:
    """A compiled model that serves calls, and compiles kernels for shapes that occur.

    Calling it runs ``main`` on numpy arrays or other DLPack tensors; ``session["decode"]`` is
    another function. Arguments are checked, and copied only if compiled code could not read them. A
    process may have one open session of a library at a time; threads share it.

    Args:
        library: The path of an exported library, or a compile result.
        budget: Limits on kernels; by default ``Budget()``.
        store: The kernel store; None stores nothing.
        compiler: Compiles the kernels; by default a new process for this session.
        strict: Refuse arguments that would be copied, and shapes outside the declared ranges.
        device: TVM's device; by default the CPU.

    Raises:
        ValueError: The library already has a session in this process, or does not load.
        FileNotFoundError: The library does not exist.
        TypeError: An argument has another type.
    """

    def __init__(self, library: Any, *, budget: Budget | None = None,
                 store: KernelStore | None = None, compiler: Compiler | None = None,
                 strict: bool = False, device: Any = None) -> None:  # fmt: skip
        for name, value, kind in (("budget", budget, Budget), ("store", store, KernelStore),
                                  ("compiler", compiler, Compiler)):  # fmt: skip
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"Session: {name}: expected a {kind.__name__}, got {value!r}")
        file_name = getattr(library, "library", library)
        if not isinstance(file_name, (str, os.PathLike)):
            raise TypeError(f"Session: expected a library or its path, got {library!r:.80}")
        path = Path(file_name)
        if not path.is_file():
            raise FileNotFoundError(f"Session: {path}: no such library")
        status = path.stat()
        file = status.st_dev, status.st_ino
        with _LOCK:
            ending = _SERVED.get(file)
            if file in _SERVED and (ending is None or not ending.closed):
                raise ValueError(f"{path} already has a session in this process or its parent: "
                                 "share it, or close it first")  # fmt: skip
            if ending is not None:
                ending.join()
            _SERVED[file] = None
        try:
            self._open(path, library, budget or Budget(), store, compiler, strict, device, file)
        except BaseException:
            _SERVED.pop(file, None)
            raise
        _OPEN.add(self)

    def _open(self, path: Path, library: Any, budget: Budget, store: KernelStore | None,
              compiler: Compiler | None, strict: bool, device: Any,
              file: Served) -> None:  # fmt: skip
        """Load the library, configure its call sites, and start the manager if one needs it."""
        self._kept, self._pid, self._strict = library, os.getpid(), strict
        module = loaded(path)
        self._module, self._device = module, device or tvm.cpu()
        sites = Sites(module, path)
        self._sites = sites
        self._functions: dict[str, Function] = {}
        self._main = self["main"] if "main" in self.functions else None
        sites.open(budget.waiting)
        ended = functools.partial(_SERVED.pop, file, None)
        manager = KernelManager(sites, budget, store, compiler, ended)
        self._manager = _SERVED[file] = manager
        try:
            for site in sites.sites:
                sites.configure(site, site.strategy, budget.shapes)
            if any(s.strategy == "jit" for s in sites.sites):
                manager.start()
        except BaseException:
            manager.close()
            raise
        weakref.finalize(self, _close_collected, manager, self._pid).atexit = False

    def __call__(self, *args: Any) -> Any:
        """Run ``main``; raises ``ValueError`` if the model has no such function."""
        return (self._main or self["main"])(*args)

    def __getitem__(self, name: str) -> Function:
        """Return a function of the model by name; raises ``ValueError`` if it is unknown."""
        function = self._functions.get(name)
        if function is not None:
            return function
        if name not in self.functions:
            raise ValueError(f"the model has no function {name}; it has "
                             f"{', '.join(self.functions)}"
                             f"{did_you_mean(name, self.functions)}")  # fmt: skip
        machine = functools.partial(_function, self._module, self._device, name)
        created = Function(self._sites, name, machine, self._strict)
        return self._functions.setdefault(name, created)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the model's public functions."""
        return tuple(self._sites.signatures)

    def start(self, *inputs: Any, function: str = "main", step: str | None = None) -> Generation:
        """Process a prompt with empty caches, and return them with the result.

        Args:
            inputs: A value for each parameter of the function that is not a cache.
            function: A function with caches; see `opinfo.transform.AppendToCaches`.
            step: The function that `Generation.step` calls; by default the same.

        Returns:
            The caches, and in ``result`` what the function returned.

        Raises:
            ValueError: The function has no caches, or the two functions have different ones.
            BoundaryError: An input does not fit.
        """
        generation = Generation(self.__getitem__, function, step or function)
        generation.start(*inputs)
        return generation

    def settle(self, seconds: float | None = None) -> Settled:
        """Wait until no shape waits for its kernel, and return what became of the shapes.

        Args:
            seconds: The timeout. None waits until all kernels are compiled; the time limit on each
                compilation bounds the wait.

        Returns:
            The events since the previous call and the shapes that still wait; true if none waits.

        Raises:
            ValueError: The timeout is not a number.
        """
        if seconds is not None and not (isinstance(seconds, Real) and seconds == seconds):
            raise ValueError(f"settle: seconds: expected a number or None, got {seconds!r:.80}")
        if not self.is_own:
            return Settled(True, (), (), 0.0)
        start = time.monotonic()
        done = self._rested(None if seconds is None else start + seconds)
        return self._manager.settled(done, time.monotonic() - start)

    def _rested(self, end: float | None) -> bool:
        """Wait until the manager has nothing to do, or until a time; return whether it had."""
        manager = self._manager
        seen = manager.rests
        while manager.is_alive() and manager.rests < seen + 2:  # one may have begun before
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def stats(self) -> Stats:
        """Return the statistics so far.

        Raises:
            RuntimeError: The process is a fork; calls are not counted there.
        """
        self._check_process()
        manager = self._manager
        sites = tuple(self._site(s) for s in manager.sites.sites)
        kernels = list(manager.loaded.values())
        return Stats(sites, tuple(manager.events), len(kernels), sum(k.size for k in kernels))

    def _site(self, site: Any) -> SiteStats:
        counts = self._manager.sites.stats(site.place)
        shapes: Counter[tuple[int, ...]] = Counter()
        for shape, calls, *_ in counts["kernels"] + counts["misses"]:
            shapes[tuple(shape)] += calls
        hits = counts["gone"] + sum(k[1] for k in counts["kernels"])
        misses = sum(m[1] for m in counts["misses"]) + counts["uncounted"] + counts["failed"]
        return SiteStats(site.name, site.caller, hits, misses, len(counts["kernels"]),
                         counts["failed"], shapes)  # fmt: skip

    def recording(self) -> Recording:
        """Return the shapes that occurred so far, with the functions that they occurred in.

        Raises:
            RuntimeError: The process is a fork; calls are not counted there.
        """
        self._check_process()
        recording = Recording()
        for site in self._manager.sites.sites:
            function = self._manager.digests[site.function]
            recording.define(function, self._manager.sites.functions[site.function])
            for shape, calls in self._site(site).shapes.items():
                if calls:
                    recording.add(site.name, function, site.values(shape), calls)
        return recording

    @property
    def is_own(self) -> bool:
        """Whether the session was opened in this process rather than in its parent."""
        return os.getpid() == self._pid

    def _check_process(self) -> None:
        if not self.is_own:
            raise RuntimeError(f"the session belongs to the parent process {self._pid}: call this "
                               "method there")  # fmt: skip

    def close(self) -> None:
        """Stop compiling and release the kernels; the generic kernels serve further calls.

        In a forked process this does nothing, because the session belongs to the parent. Calls
        there use the kernels loaded at the fork, and are not counted.
        """
        if not self.is_own:
            return
        self._manager.close()
        _OPEN.discard(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    """Close all sessions: a thread still in C++ at the interpreter's exit would crash it."""
    for session in list(_OPEN):
        session.close()
    for manager in list(_SERVED.values()):  # of sessions that were not closed
        if manager is not None and manager.is_alive():
            manager.join()


def _function(module: Any, device: Any, name: str) -> Any:
    """Create a virtual machine and return its function; it must not keep the session alive."""
    return relax.VirtualMachine(module, device)[name]


def _close_collected(manager: KernelManager, pid: int) -> None:
    """Close the manager of a collected session.

    It does not join the thread, because the garbage collector may run under a lock that the thread
    needs.
    """
    if pid == os.getpid():
        manager.close(wait=False)


def stats() -> tuple[Stats, ...]:
    """Return the statistics of the open sessions of this process.

    Returns:
        One `Stats` for each session.
    """
    return tuple(s.stats() for s in list(_OPEN) if s.is_own)
