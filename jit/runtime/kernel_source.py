"""Where kernels come from: the store, another process that compiles them, or the compiler."""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.support.wording import last_line
from ...byoc.process.temporary_folder import TemporaryFolder, lacks_room
from ..kernels.build_kernel import GENERIC, loaded
from ..kernels.compiler import CompileFailed, Compiler, CompilerDied, Interrupted
from ..kernels.generic_kernel import GenericKernel
from ..store import kernel_key
from ..store.store import KernelStore
from .loaded_memory import pages

LOG = logging.getLogger("opinfo.jit")
#: Bytes of a loaded kernel besides its pages: tables of the loader, an entry in a site's cache.
OVERHEAD = 16 << 10
#: After this many crashes of the compiler, a function stays generic.
CRASHES = 3
#: The entry of a shape that the generic kernel serves as fast.
MARK = b"opinfo: the generic kernel is as fast\n"
#: Seconds before the first and between later looks at a kernel that another process compiles.
LOOK, LOOKS = 0.05, 0.5


class CompiledElsewhere(Exception):
    """Another process compiles the kernel; ``seconds`` is the time until the next look."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(frozen=True)
class KernelRequest:
    """A function (its name, digest, JSON and PrimFunc) and the values of its extents.

    ``generic`` is its generic kernel, and ``place`` where another process finds that.
    """

    function: str
    digest: str
    text: str
    func: Any
    values: Mapping[str, int]
    generic: Any
    place: GenericKernel | None


@dataclass(frozen=True)
class ObtainedKernel:
    """A kernel: ``compiled`` or ``loaded`` from the store, its rule, its library and memory.

    The library is empty if the generic kernel serves the shape as fast.
    """

    what: str
    rule: str
    function: Any
    library: str
    size: int


class KernelSource:
    """Obtains the kernels of one library; for one thread.

    Of the processes that share a store, one compiles a kernel. They wait for the holder of its
    lease for at most twice the compiler's time limit.
    """

    def __init__(self, target: str, compiler: Compiler, store: KernelStore | None,
                 most: int) -> None:  # fmt: skip
        self.target, self.compiler, self.store, self.most = target, compiler, store, most
        self.compiles = 0
        self._schedules = compiler.schedules
        self._crashes: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._looks: dict[str, tuple[float, float]] = {}  # end of patience, next pause
        self._folder = TemporaryFolder("opinfo-jit-")
        self._outdated = False

    def compute_keys(self, functions: Mapping[str, Any]) -> None:
        """Compute the fixed parts of the keys in the store before the first request."""
        for func in functions.values():
            kernel_key.key(func, {}, self.target, self._schedules)

    def get(self, request: KernelRequest) -> ObtainedKernel:
        """Load a kernel from the store, or compile it.

        Raises:
            CompiledElsewhere: Another process compiles it.
            Interrupted: It may be retried.
            CompileFailed: It cannot be compiled.
        """
        try:
            if self.store is None:
                return self._compile(request)
            return self._shared(request, self.store, self._name(request))
        except (CompileFailed, OSError) as error:
            if isinstance(error, CompilerDied):
                self._crashes[request.digest] += 1
            if isinstance(error, Interrupted) or (why := lacks_room(self._folder.path)) is None:
                raise
            raise Interrupted(f"no space for a kernel: {why}") from error
        finally:
            for file in self._folder.path.glob("*.so*"):  # including files of a compiler that died
                file.unlink(missing_ok=True)

    def discard(self, request: KernelRequest, why: str) -> None:
        """Remove a kernel that does not work from the store."""
        if self.store is not None:
            self.store.discard(self._name(request), why)

    def close(self) -> None:
        self._folder.remove()

    def _shared(self, request: KernelRequest, store: KernelStore, name: str) -> ObtainedKernel:
        """Look into the store before and after its lease, whose last holder may have compiled."""
        if (kernel := self._stored(store, name, request)) is not None:
            return kernel
        lease = store.lease(name)
        if lease is None and (seconds := self._pause(name)) is not None:
            raise CompiledElsewhere(seconds)
        try:
            if (kernel := self._stored(store, name, request)) is not None:
                return kernel
            kernel = self._compile(request)
            self._keep(store, name, request, kernel)
            return kernel
        finally:
            self._looks.pop(name, None)
            if lease is not None:
                lease.release()

    def _pause(self, name: str) -> float | None:
        """Return the seconds until the next look at a kernel; None if the wait is over."""
        now = time.monotonic()
        end, pause = self._looks.get(name, (now + 2 * self.compiler.seconds, LOOK))
        self._looks[name] = end, min(2 * pause, LOOKS)
        return pause if now < end else None

    def _stored(self, store: KernelStore, name: str,
                request: KernelRequest) -> ObtainedKernel | None:  # fmt: skip
        library = self._path()
        if not store.copy(name, library):
            return None
        try:
            with library.open("rb") as file:
                if file.read(len(MARK)) == MARK:
                    return ObtainedKernel("loaded", GENERIC, request.generic, "", OVERHEAD)
            return self._loaded("loaded", "", library)
        except Exception as error:  # built by another system: compile it instead
            store.discard(name, f"it does not load: {last_line(error)}")
            return None

    def _compile(self, request: KernelRequest) -> ObtainedKernel:
        if self.compiles >= self.most:
            raise CompileFailed(f"the budget of {self.compiles} compiled kernels is exhausted")
        if self._crashes[request.digest] >= CRASHES:
            raise CompileFailed(f"the compiler crashed {CRASHES} times on this function")
        self.compiles += 1
        library = self._path()
        rule, _ = self.compiler.compile(request.digest, request.text, request.values, self.target,
                                        library, request.place)  # fmt: skip
        if rule == GENERIC and not library.exists():
            return ObtainedKernel("compiled", GENERIC, request.generic, "", OVERHEAD)
        return self._loaded("compiled", rule, library)

    def _keep(self, store: KernelStore, name: str, request: KernelRequest,
              kernel: ObtainedKernel) -> None:  # fmt: skip
        if self.compiler.toolchain == kernel_key.toolchain():
            shape = ", ".join(f"{k}={v}" for k, v in request.values.items())
            about = {"function": request.function, "shape": shape, "target": self.target}
            library = Path(kernel.library) if kernel.library else self._path()
            if not kernel.library:
                library.write_bytes(MARK)
            store.put(name, library, about)
        elif not self._outdated:
            self._outdated = True
            LOG.warning("kernels are not stored: the compiler process runs other versions than "
                        "this process, which started before they changed; restart it")  # fmt: skip

    def _loaded(self, what: str, rule: str, library: Path) -> ObtainedKernel:
        function = loaded(library)
        return ObtainedKernel(what, rule, function, str(library), pages(library) + OVERHEAD)

    def _path(self) -> Path:
        return self._folder.path / f"{next(self._numbers)}.so"

    def _name(self, request: KernelRequest) -> str:
        """Return the key of a kernel in the store."""
        return kernel_key.key(request.func, request.values, self.target, self._schedules)
