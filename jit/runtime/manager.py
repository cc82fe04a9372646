"""The thread that compiles and loads the kernels that call sites request, within a budget."""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm

from ...byoc.patterns.failure import last_line
from ...byoc.process.folder import Folder, lacks_room
from ..arguments.boundary import checked_integer
from ..kernels.build_kernel import ENTRY, loaded
from ..kernels.compiler import CompileFailed, Compiler, CompilerDied, Interrupted, NotStarted
from ..store import kernel_key
from ..store.store import KernelStore
from .library import LoadedSite, Sites
from .pages import pages
from .postponed import Postponed

LOG = logging.getLogger("opinfo.jit")
#: Bytes of a loaded kernel besides its pages: tables of the loader, an entry in a site's cache.
OVERHEAD = 16 << 10
#: Tenths of a second without use after which a kernel may be evicted.
IDLE = 50

#: After this many crashes of the compiler, a function stays generic.
CRASHES = 3


@dataclass(frozen=True)
class Budget:
    """How much a session may spend on specialised kernels.

    Attributes:
        kernels: Kernels loaded at the same time.
        bytes: Memory of the loaded kernels in bytes.
        compiles: Kernels compiled in total.
        shapes: Shapes whose calls are counted, for each call site.
        waiting: Shapes queued for compilation.
    """

    kernels: int = 256
    bytes: int = 64 << 20
    compiles: int = 4096
    shapes: int = 4096
    waiting: int = 256

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if checked_integer(value, f"Budget: {name}") < 0:
                raise ValueError(f"Budget: {name} must not be negative, got {value!r}")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of one shape at one call site.

    Attributes:
        what: ``compiled``, ``loaded`` from disk, ``shared`` with another site, ``postponed``
            because the compiler was killed, ``failed``, ``refused`` by the budget, or
            ``evicted``.
        site: The call site.
        shape: The symbolic extents.
        milliseconds: The duration.
        why: The reason, or an empty string.
        rule: The schedule rule of the kernel.
    """

    what: str
    site: str
    shape: tuple[int, ...]
    milliseconds: float
    why: str = ""
    rule: str = ""


@dataclass
class _Loaded:
    """A loaded kernel, and the places of the sites that call it."""

    function: Any
    library: str
    size: int
    places: set[int] = field(default_factory=set)


Key = tuple[str, tuple[int, ...]]


class Manager(threading.Thread):
    """Serves one library until `close`."""

    def __init__(self, sites: Sites, budget: Budget, store: KernelStore | None,
                 compiler: Compiler | None, ended: Callable[[], object]) -> None:  # fmt: skip
        super().__init__(name="opinfo-jit", daemon=True)
        self.sites, self.budget, self.store = sites, budget, store
        self.compiler, self._owns_compiler = compiler or Compiler(), compiler is None
        self._schedules = self.compiler.schedules
        self.digests = {name: hashlib.sha256(text.encode()).hexdigest()
                        for name, text in sites.functions.items()}  # fmt: skip
        self.functions = {name: tvm.ir.load_json(text) for name, text in sites.functions.items()}
        self.loaded: dict[Key, _Loaded] = {}
        self.failed: dict[Key, str] = {}
        self.crashes: Counter[str] = Counter()
        self._postponed = Postponed()
        self._numbers = itertools.count()
        self.events: deque[Event] = deque(maxlen=10_000)
        self.compiles = 0
        self.rests = 0  # how often the queue was empty; `settle` waits for it
        self._folder = Folder("opinfo-jit-")
        self._closed, self._ended, self._outdated = False, ended, False
        self._eager = deque((s, key) for s in sites.sites for key in s.likely if min(key) > 0)

    def run(self) -> None:
        try:
            if self.store is not None and not self._closed:
                self._compute_keys()
            while not self._closed:
                self._next()
        finally:
            self._end()

    def _compute_keys(self) -> None:
        """Compute the fixed parts of the keys in the store before the first request."""
        for func in self.functions.values():
            kernel_key.key(func, {}, self.sites.target, self._schedules)

    def _next(self) -> None:
        if self._eager:
            site, shape = self._eager.popleft()
            return self._serve(site, shape, "likely")
        if due := self._postponed.pop():
            return self._serve(*due, "retried")
        request = self.sites.next(0)
        if request is None:
            self.rests += not self._postponed.is_awaited
            self.compiler.stop_if_idle()
            request = self.sites.next(100)
        if request is None or self._closed:
            return None
        place, shape = request
        if place < 0:
            return self._broken(self.sites.sites[~place], shape)
        return self._serve(self.sites.sites[place], shape, "requested")

    def close(self, wait: bool = True) -> None:
        """Stop, make all sites generic and release kernels; without `wait`, release them later."""
        first, self._closed = not self._closed, True
        if first:  # later the sites may belong to another session
            self.sites.close()
        if first and self._owns_compiler:
            self.compiler.stop()
        if first and self.ident is None:
            self._end()
        elif wait and self.is_alive() and self is not threading.current_thread():
            self.join()

    @property
    def closed(self) -> bool:
        return self._closed

    def _end(self) -> None:
        try:
            self.sites.close()  # a kernel may have been inserted meanwhile
            if self._owns_compiler:
                self.compiler.close()
            self.loaded.clear()
            self._folder.remove()
        finally:
            self._ended()

    def _broken(self, site: LoadedSite, shape: tuple[int, ...]) -> None:
        """Drop a kernel from all sites and disk: it raised an error, the generic one did not."""
        key = self.digests[site.function], shape
        errors = self.sites.stats(site.place, misses=False)["broken"]
        why = next(
            (why for broken_shape, why in reversed(errors) if tuple(broken_shape) == shape),
            "it failed",
        )
        self.failed[key] = f"a call of its kernel failed: {why}"
        dropped = self.loaded.pop(key, None)
        for place in dropped.places if dropped is not None else ():
            self.sites.drop(place, shape, False)
        self._note(Event("failed", site.name, shape, 0.0, self.failed[key]))
        if self.store is not None:
            self.store.discard(self._stored_name(site, site.values(shape)), self.failed[key])

    def _serve(self, site: LoadedSite, shape: tuple[int, ...], why: str) -> None:
        start = time.perf_counter()
        key = self.digests[site.function], shape
        what, rule, reason = "refused", "", why
        try:
            if key in self.failed:
                what, reason = "failed", self.failed[key]
            elif key in self.loaded:
                what = "shared"
            elif full := self._full():
                reason = full
            else:
                what, rule = self._get(site, shape, key)
        except Interrupted as error:
            return self._postpone(site, shape, key, error)
        except CompilerDied as error:
            self.crashes[key[0]] += 1
            what, reason = "failed", str(error)
            self.failed[key] = reason
        except Exception as error:  # compiler, loader or disk: this shape stays generic
            what = "failed"
            reason = (
                str(error)
                if isinstance(error, CompileFailed)
                else f"{type(error).__name__}: {error}"
            )
            self.failed[key] = reason
        if key in self.loaded and not self._closed:
            self.loaded[key].places.add(site.place)
            kernel = self.loaded[key]
            self.sites.insert(site.place, shape, kernel.function, kernel.library, ENTRY)
        elif not self._closed:
            self.sites.drop(site.place, shape, what == "refused")
        if not self._closed:
            took = 1e3 * (time.perf_counter() - start)
            self._note(Event(what, site.name, shape, took, reason, rule))

    def _postpone(self, site: LoadedSite, shape: tuple[int, ...], key: Key,
                  why: Interrupted) -> None:  # fmt: skip
        """Retry a shape later, since the failure was not its own; sites do not repeat requests."""
        if self._closed:
            return
        if isinstance(why, NotStarted):
            seconds, rarely = why.seconds, not why.soon
            self._postponed.wait(site, shape, seconds, why.soon)
            if not why.tried:  # the event belongs to the shape that tried the start
                return
        else:
            seconds, rarely = self._postponed.add(key[0], site, shape)
        self._note(Event("failed" if rarely else "postponed", site.name, shape, 0.0,
                         f"{why}; retrying in {seconds:g} s"))  # fmt: skip

    def _note(self, event: Event) -> None:
        self.events.append(event)
        level = logging.WARNING if event.what == "failed" else logging.INFO
        LOG.log(level, "%s %s %s %.1f ms: %s", event.what, event.site, list(event.shape),
                event.milliseconds, event.why)  # fmt: skip

    def _get(self, site: LoadedSite, shape: tuple[int, ...], key: Key) -> tuple[str, str]:
        """Load a kernel from disk or compile it; return which, and the rule of its schedule."""
        values = site.values(shape)
        store, name = self.store, "" if self.store is None else self._stored_name(site, values)
        library = self._folder.path / f"{next(self._numbers)}.so"
        try:
            if store is not None and store.copy(name, library):
                try:
                    self._load(key, library)
                    return "loaded", ""
                except Exception as error:  # built by another system: compile it instead
                    store.discard(name, f"it does not load: {last_line(error)}")
                library = self._folder.path / f"{next(self._numbers)}.so"
            return "compiled", self._compile(site, values, key, library, name)
        except (CompileFailed, OSError) as error:
            if isinstance(error, Interrupted) or (why := lacks_room(self._folder.path)) is None:
                raise
            raise Interrupted(f"no space for a kernel: {why}") from error
        finally:
            for file in self._folder.path.glob("*.so*"):  # including files of a compiler that died
                file.unlink(missing_ok=True)

    def _compile(self, site: LoadedSite, values: dict[str, int], key: Key, library: Path,
                 name: str) -> str:  # fmt: skip
        """Compile, load and store a kernel; return the rule of its schedule."""
        if self.compiles >= self.budget.compiles:
            raise CompileFailed(f"the budget of {self.compiles} compiled kernels is exhausted")
        if self.crashes[key[0]] >= CRASHES:
            raise CompileFailed(f"the compiler crashed {CRASHES} times on this function")
        self.compiles += 1
        text = self.sites.functions[site.function]
        rule, _ = self.compiler.compile(key[0], text, values, self.sites.target, library)
        self._load(key, library)
        if self.store is None:
            return rule
        if self.compiler.toolchain == kernel_key.toolchain():
            self.store.put(name, library, self._shown(site, values))
        elif not self._outdated:
            self._outdated = True
            LOG.warning("kernels are not stored: the compiler process runs other versions than "
                        "this process, which started before they changed; restart it")  # fmt: skip
        return rule

    def _shown(self, site: LoadedSite, values: dict[str, int]) -> dict[str, str]:
        shape = ", ".join(f"{k}={v}" for k, v in values.items())
        return {"function": site.function, "shape": shape, "target": self.sites.target}

    def _stored_name(self, site: LoadedSite, values: dict[str, int]) -> str:
        """Return the key of a kernel in the store."""
        return kernel_key.key(self.functions[site.function], values, self.sites.target,
                              self._schedules)  # fmt: skip

    def _load(self, key: Key, library: Path) -> None:
        self.loaded[key] = _Loaded(loaded(library), str(library), pages(library) + OVERHEAD)

    def _full(self) -> str:
        """Make room for a kernel; return why that is impossible, or an empty string."""
        size = sum(k.size for k in self.loaded.values())
        largest = max((k.size for k in self.loaded.values()), default=OVERHEAD)
        if len(self.loaded) < self.budget.kernels and size + largest <= self.budget.bytes:
            return ""
        key, age = self._oldest()
        if key is None or age < IDLE:
            return (f"the budget is exhausted: {len(self.loaded)} kernels of {size >> 10} KiB, all "
                    f"in use")  # fmt: skip
        self._evict(key)
        return ""

    def _oldest(self) -> tuple[Key | None, int]:
        used: dict[Key, int] = dict.fromkeys(self.loaded, 0)
        for site in self.sites.sites:
            for shape, _, tick in self.sites.stats(site.place, misses=False)["kernels"]:
                key = self.digests[site.function], tuple(shape)
                used[key] = max(used.get(key, 0), tick)
        oldest = min(used, key=lambda k: used[k], default=None)
        return oldest, 0 if oldest is None else int(time.monotonic() * 10) - used[oldest]

    def _evict(self, key: Key) -> None:
        evicted = self.loaded.pop(key)
        for place in evicted.places:
            self.sites.drop(place, key[1], True)
            self._note(Event("evicted", self.sites.sites[place].name, key[1], 0.0, "makes "
                             "room for a requested shape"))  # fmt: skip
