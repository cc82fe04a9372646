"""A compiled model that serves: shapes come in, kernels for them are made in the background."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ..kernels.compiler import Compiler
from ..store.store import KernelStore
from ..tune.record import Recording
from .function import Function
from .library import Sites, loaded
from .manager import Budget, Event, Manager

Served = tuple[int, int]
_OPEN: weakref.WeakSet[Session] = weakref.WeakSet()
#: The libraries that are served, by whom; a library is loaded once, however often it is opened.
_SERVED: dict[Served, Manager | None] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class SiteStats:
    """The calls of one site.

    Attributes:
        site: The call site.
        caller: The Relax function that it is in.
        hits: Calls served by specialised kernels.
        misses: Calls served by the generic kernel.
        kernels: Specialised kernels that are loaded.
        failed_calls: Calls that failed in a specialised kernel and were served by the generic one.
        shapes: Calls by shape.
    """

    site: str
    caller: str
    hits: int
    misses: int
    kernels: int
    failed_calls: int
    shapes: Mapping[tuple[int, ...], int]

    @property
    def hit_rate(self) -> float:
        """The share of calls that a special kernel served, 0 where there were none."""
        calls = self.hits + self.misses
        return self.hits / calls if calls else 0.0


@dataclass(frozen=True)
class Stats:
    """What a session did.

    Attributes:
        sites: The calls of each site.
        events: What became of each shape.
        kernels: Specialised kernels that are loaded.
        bytes: Their bytes.
    """

    sites: tuple[SiteStats, ...]
    events: tuple[Event, ...]
    kernels: int
    bytes: int

    @property
    def hit_rate(self) -> float:
        hits, misses = (sum(getattr(s, k) for s in self.sites) for k in ("hits", "misses"))
        return hits / (hits + misses) if hits + misses else 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        """How many events of each kind there were."""
        return Counter(e.what for e in self.events)

    def __str__(self) -> str:
        told = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        calls = sum(s.hits + s.misses for s in self.sites)
        return (f"{self.hit_rate:.1%} of {calls} calls by special kernels; {self.kernels} kernels, "
                f"{self.bytes >> 10} KiB; {told}")  # fmt: skip


class Session:
    """A compiled model that serves calls, and compiles kernels for the shapes that occur.

    Call the session to run ``main`` on numpy arrays or DLPack tensors; ``session["decode"]``
    returns another function. The session checks arguments, and copies those that compiled code
    cannot read directly. A process can open only one session of a library at a time; threads may
    share it.

    Args:
        library: The path of an exported library, or the compiled model.
        budget: Limits on kernels; by default ``Budget()``.
        store: The store that keeps kernels on disk; with None, kernels are not kept.
        compiler: Compiles the kernels; by default a new compiling process.
        strict: Refuse arguments that would have to be copied, and shapes outside the declared
            ranges.
        device: The device to run on; by default the one that the library was compiled for.

    Raises:
        ValueError: This process already has an open session of the library.
    """

    def __init__(self, library: Any, *, budget: Budget | None = None,
                 store: KernelStore | None = None, compiler: Compiler | None = None,
                 strict: bool = False, device: Any = None) -> None:  # fmt: skip
        for name, given, kind in (("budget", budget, Budget), ("store", store, KernelStore),
                                  ("compiler", compiler, Compiler)):  # fmt: skip
            if given is not None and not isinstance(given, kind):
                raise TypeError(f"Session: {name}: expected a {kind.__name__}, got {given!r}")
        path = Path(getattr(library, "library", library))
        told = path.stat()
        file = told.st_dev, told.st_ino
        with _LOCK:
            ending = _SERVED.get(file)
            if file in _SERVED and (ending is None or not ending.closed):
                raise ValueError(f"{path} has a session in this process, or in that which it was "
                                 "forked off: share it, or close it first")  # fmt: skip
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
        self._kept, self._pid, self._strict = library, os.getpid(), strict
        module = loaded(path)
        self._module, self._device = module, device or tvm.cpu()
        sites = Sites(module)
        self._sites = sites
        self._functions: dict[str, Function] = {}
        self._main = self["main"] if "main" in self.functions else None
        sites.open(budget.waiting)
        ended = functools.partial(_SERVED.pop, file, None)
        manager = self._manager = _SERVED[file] = Manager(sites, budget, store, compiler, ended)
        try:
            for s in sites.sites:
                sites.configure(s, s.strategy, budget.shapes)
            if any(s.strategy == "jit" for s in sites.sites):
                manager.start()
        except BaseException:
            manager.close()
            raise
        weakref.finalize(self, _let_go, manager, self._pid).atexit = False

    def __call__(self, *args: Any) -> Any:
        """Run ``main``; ``ValueError`` where the model has none."""
        return (self._main or self["main"])(*args)

    def __getitem__(self, name: str) -> Function:
        """A function of the model by its name; ``ValueError`` for one that it has not."""
        found = self._functions.get(name)
        if found is not None:
            return found
        if name not in self.functions:
            raise ValueError(f"the model has no function {name}; it has "
                             f"{', '.join(self.functions)}")  # fmt: skip
        machine = functools.partial(_function, self._module, self._device, name)
        made = Function(self._sites, name, machine, self._strict)
        return self._functions.setdefault(name, made)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the model's public functions."""
        return tuple(self._sites.signatures)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until no shape waits for its kernel; return False after ``seconds``.

        With None, wait without a limit. This ends, because each kernel has a time limit.
        """
        manager = self._manager
        if not manager.is_alive():
            return True
        end, seen = None if seconds is None else time.monotonic() + seconds, manager.rests
        while manager.is_alive() and manager.rests < seen + 2:  # the first may have begun before
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def stats(self) -> Stats:
        """What was called and compiled until now. ``RuntimeError`` in a process that was forked
        off: it is not counted there."""
        self._own()
        manager = self._manager
        sites = tuple(self._site(s) for s in manager.sites.sites)
        kernels = list(manager.loaded.values())
        return Stats(sites, tuple(manager.events), len(kernels), sum(k.size for k in kernels))

    def _site(self, site: Any) -> SiteStats:
        told = self._manager.sites.stats(site.place)
        shapes: Counter[tuple[int, ...]] = Counter()
        for shape, calls, *_ in told["kernels"] + told["misses"]:
            shapes[tuple(shape)] += calls
        hits = told["gone"] + sum(k[1] for k in told["kernels"])
        misses = sum(m[1] for m in told["misses"]) + told["uncounted"] + told["failed"]
        return SiteStats(site.name, site.caller, hits, misses, len(told["kernels"]),
                         told["failed"], shapes)  # fmt: skip

    def recording(self) -> Recording:
        """The shapes that came in until now, with the functions that they came to. ``RuntimeError``
        in a process that was forked off."""
        self._own()
        found = Recording()
        for s in self._manager.sites.sites:
            function = self._manager.digests[s.function]
            found.define(function, self._manager.sites.functions[s.function])
            for shape, calls in self._site(s).shapes.items():
                if calls:
                    found.add(s.name, function, s.values(shape), calls)
        return found

    @property
    def is_own(self) -> bool:
        """Whether this process opened the session, rather than a process that forked this one."""
        return os.getpid() == self._pid

    def _own(self) -> None:
        if not self.is_own:
            raise RuntimeError(f"the session is of process {self._pid}, which this one was forked "
                               "off: ask it there")  # fmt: skip

    def close(self) -> None:
        """Stop compiling and unload the kernels; the generic kernels serve later calls.

        In a forked child process, this does nothing, because the session belongs to the parent.
        Calls in the child use the kernels loaded before the fork, and are not counted.
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
    """A thread that is inside C++ when the interpreter ends would take the process down."""
    for session in list(_OPEN):
        session.close()
    for manager in list(_SERVED.values()):  # whose session was not closed
        if manager is not None and manager.is_alive():
            manager.join()


def _function(module: Any, device: Any, name: str) -> Any:
    """Of a virtual machine of its own. It holds no session, which goes when it is let go."""
    return relax.VirtualMachine(module, device)[name]


def _let_go(manager: Manager, pid: int) -> None:
    """Of a session that was not closed. Its thread is not waited for: what collects garbage may
    hold a lock that it needs."""
    if pid == os.getpid():
        manager.close(wait=False)


def stats() -> tuple[Stats, ...]:
    """Return what each open session of this process did.

    Returns:
        One `Stats` for each session.
    """
    return tuple(s.stats() for s in list(_OPEN) if s.is_own)
