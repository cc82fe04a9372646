"""The thread that compiles and loads the kernels that call sites request, within a budget."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import tvm

from ..arguments.boundary import checked_integer
from ..kernels.build_kernel import ENTRY
from ..kernels.compiler import CompileFailed, Compiler, Interrupted, NotStarted
from ..store.store import KernelStore
from .kernel_source import OVERHEAD, CompiledElsewhere, KernelRequest, KernelSource, ObtainedKernel
from .library import LoadedSite, Sites
from .retry_queue import RetryQueue
from .session_events import Event, Settled, Waiting

LOG = logging.getLogger("opinfo.jit")
#: Tenths of a second without use after which a kernel may be evicted.
IDLE = 50


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


@dataclass
class _Loaded:
    """A loaded kernel, and the places of the sites that call it."""

    kernel: ObtainedKernel
    places: set[int] = field(default_factory=set)

    @property
    def size(self) -> int:
        return self.kernel.size


Key = tuple[str, tuple[int, ...]]


class KernelManager(threading.Thread):
    """Serves one library until `close`."""

    def __init__(self, sites: Sites, budget: Budget, store: KernelStore | None,
                 compiler: Compiler | None, ended: Callable[[], object]) -> None:  # fmt: skip
        super().__init__(name="opinfo-jit", daemon=True)
        self.sites, self.budget, self.store = sites, budget, store
        self.compiler, self._owns_compiler = compiler or Compiler(), compiler is None
        self.digests = {name: hashlib.sha256(text.encode()).hexdigest()
                        for name, text in sites.functions.items()}  # fmt: skip
        self.functions = {name: tvm.ir.load_json(text) for name, text in sites.functions.items()}
        self._source = KernelSource(sites.target, self.compiler, store, budget.compiles)
        self.loaded: dict[Key, _Loaded] = {}
        self.failed: dict[Key, str] = {}
        self._postponed = RetryQueue()
        self.events: deque[Event] = deque(maxlen=10_000)
        self.rests = 0  # how often the queue was empty; `settle` waits for it
        self._noted = self._reported = 0  # events so far, and those that `settle` returned
        self._noting = threading.Lock()
        self._closed, self._ended = False, ended
        self._eager = deque((s, key) for s in sites.sites for key in s.likely if min(key) > 0)

    def run(self) -> None:
        try:
            if self.store is not None and not self._closed:
                self._source.compute_keys(self.functions)
            while not self._closed:
                self._next()
        finally:
            self._end()

    def settled(self, done: bool, seconds: float) -> Settled:
        """Return the events since the previous call, and the shapes that wait unless ``done``."""
        with self._noting:
            new = min(self._noted - self._reported, len(self.events))
            events = tuple(self.events)[len(self.events) - new :]
            self._reported = self._noted
        return Settled(done, events, () if done else self._waiting(), seconds)

    def _waiting(self) -> tuple[Waiting, ...]:
        sites = self.sites.sites
        requested = [(sites[place], shape) for place, shape in self.sites.waiting() if place >= 0]
        every = [*requested, *self._postponed.awaited(), *tuple(self._eager)]
        return tuple(dict.fromkeys(Waiting(site.name, shape) for site, shape in every
                                   if not self._has_outcome(site, shape)))  # fmt: skip

    def _has_outcome(self, site: LoadedSite, shape: tuple[int, ...]) -> bool:
        key = self.digests[site.function], shape
        kernel = self.loaded.get(key)
        return key in self.failed or (kernel is not None and site.place in kernel.places)

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
            self._source.close()
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
        self._source.discard(self._request(site, shape), self.failed[key])

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
                kernel = self._source.get(self._request(site, shape))
                self.loaded[key] = _Loaded(kernel)
                what, rule = kernel.what, kernel.rule
        except CompiledElsewhere as error:
            return self._postponed.wait(site, shape, error.seconds, soon=True)
        except Interrupted as error:
            return self._postpone(site, shape, key, error)
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
            kernel = self.loaded[key].kernel
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
        with self._noting:
            self.events.append(event)
            self._noted += 1
        level = logging.WARNING if event.what == "failed" else logging.INFO
        LOG.log(level, "%s %s %s %.1f ms: %s", event.what, event.site, list(event.shape),
                event.milliseconds, event.why)  # fmt: skip

    def _request(self, site: LoadedSite, shape: tuple[int, ...]) -> KernelRequest:
        name, sites = site.function, self.sites
        return KernelRequest(name, self.digests[name], sites.functions[name], self.functions[name],
                             site.values(shape), sites.generic(name),
                             sites.generic_place(name))  # fmt: skip

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
