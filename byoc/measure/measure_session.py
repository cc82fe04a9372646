"""One run of measurements; libraries and cases are shared by candidates."""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import tvm

from .bench import Bench
from .candidate import Candidate, ConverterFailed, arrays, program
from .measure import Measure
from .measure_jobs import Build, Compute, NotLoaded, Time
from .measured import Excluded, MeasureError, Result
from .subject import Subject, joined
from .tracker import Tracker

Put = Callable[[Candidate, Result], None]
T = TypeVar("T")
K = TypeVar("K")
#: The most candidates built together, and the most bytes that they read; fewer under a limit of
#: time, so that the first ones are timed soon.
TOGETHER, FEW = 24, 8
BYTES = 256 << 20
#: Different numbers in inputs whose results are not compared.
FEW_NUMBERS = 65521
#: The target that computes cases on this machine, unless it can run what is measured.
HOST = "llvm"
#: Seconds that a fleet's only server may take to restart.
RESTART = 10.0


@dataclass(frozen=True)
class BuiltCandidate:
    """A function of a library; ``isolated`` if the library has no other."""

    library: Path
    function: str
    isolated: bool


class MeasureSession(Bench):
    """Calls ``put`` with each result, from any thread. Close it, then remove it."""

    def __init__(self, how: Measure, candidates: Sequence[Candidate], put: Put) -> None:
        fleet = how.tracker is not None
        self.builders = _servers(how.tracker, how.wait) if how.tracker is not None else how.builders
        self.device: AbstractContextManager[Any] = (
            threading.Lock() if how.on_gpu and not fleet else nullcontext()
        )
        super().__init__(how, _modules(candidates))
        self.put = put
        self.reference = _reference(how)
        self.lock = threading.Lock()
        self.building = threading.Lock()  # TVM's BlockBuilder has one stack for all threads
        self.pending = Counter(c.subject.hash for c in candidates)
        unique = {c.subject.hash: c.subject for c in candidates}
        self.groups = list(together(list(unique.values()), lambda s: s, batch_size(how)))
        self.place = {s.hash: (n, k) for n, g in enumerate(self.groups) for k, s in enumerate(g)}
        self.hosts: dict[int, Future[list[BuiltCandidate | Excluded]]] = {}
        self.cases: dict[str, Future[Path | Excluded]] = {}

    def measure(self, batch: Sequence[Candidate]) -> None:
        """Build candidates of one backend together, then time them one after the other."""
        for candidate, built in zip(batch, self.built(batch), strict=True):
            result = self.result(candidate, built)
            if isinstance(result, NotLoaded):
                (isolated,) = self.built([candidate], isolated=True)
                result = self.result(candidate, isolated)
            self.forget(candidate.subject)
            self.put(candidate, result.excluded if isinstance(result, NotLoaded) else result)

    def result(self, candidate: Candidate, built: BuiltCandidate | Excluded) -> Result | NotLoaded:
        if isinstance(built, Excluded):
            return built
        case = self.case(candidate.subject)
        if isinstance(case, Excluded):
            return case
        place = str(built.library), str(case)
        with self.device:
            result = self.timed(
                candidate.key.target,
                lambda server: Time(*place, server, built.function, candidate.inputs),
            )
        return result.excluded if isinstance(result, NotLoaded) and built.isolated else result

    def built(
        self, batch: Sequence[Candidate], isolated: bool = False
    ) -> Iterator[BuiltCandidate | Excluded]:
        """The function of each candidate, in one library if it builds, else in one for each."""
        as_case = self.how.checked and batch[0].key.target == self.reference and not isolated
        if batch[0].by is None and as_case:
            yield from (self.host(c.subject) for c in batch)
            return
        library = self.library(batch)
        if not isinstance(library, Excluded) or len(batch) == 1:
            yield from (_function(library, k, len(batch)) for k in range(len(batch)))
            return
        for candidate in batch:
            yield _function(self.library([candidate]), 0, 1)

    def library(self, batch: Sequence[Candidate]) -> Path | Excluded:
        try:
            with self.building:
                module, code = program(batch)
        except ConverterFailed as error:
            return Excluded(str(error))
        return self.build(lambda to: Build(module, code, batch[0].key.target, to))

    def build(self, job: Callable[[str], Build]) -> Path | Excluded:
        to = self.path("library.so")
        failed = self.run(job(str(to)), self.how.build_timeout, "its compiler")
        if isinstance(failed, Excluded):
            return failed
        return to if failed is None else Excluded(f"it does not build: {failed}")

    def host(self, subject: Subject) -> BuiltCandidate | Excluded:
        """TVM's own code for this machine."""
        n, k = self.place[subject.hash]
        return _once(self.lock, self.hosts, n, lambda: self.hosted(self.groups[n]))[k]

    def hosted(self, group: Sequence[Subject]) -> list[BuiltCandidate | Excluded]:
        def build(some: Sequence[Subject]) -> Path | Excluded:
            with self.building:
                module = tvm.ir.save_json(joined(some))
            return self.build(lambda to: Build(module, None, self.reference, to))

        library = build(group)
        if not isinstance(library, Excluded) or len(group) == 1:
            return [_function(library, k, len(group)) for k in range(len(group))]
        return [_function(build([s]), 0, 1) for s in group]

    def case(self, subject: Subject) -> Path | Excluded:
        """Inputs and expected results, computed once for all candidates."""
        return _once(self.lock, self.cases, subject.hash, lambda: self.computed(subject))

    def computed(self, subject: Subject) -> Path | Excluded:
        path = self.folder.path / f"case-{subject.hash}"
        if not self.how.checked:
            case = arrays(subject, FEW_NUMBERS), None
            path.write_bytes(pickle.dumps(case, pickle.HIGHEST_PROTOCOL))
            return path
        host = self.host(subject)
        failed: str | Excluded | None = host if isinstance(host, Excluded) else None
        if isinstance(host, BuiltCandidate):
            here = self.how.on_gpu and self.how.tracker is None
            job = Compute(str(host.library), host.function, arrays(subject), str(path), here)
            with self.device:
                failed = self.run(job, self.how.timeout, "it")
        if failed is None:
            return path
        why = failed.reason if isinstance(failed, Excluded) else failed
        return Excluded(f"TVM does not compute the operators: {why}")

    def forget(self, subject: Subject) -> None:
        """Remove a case that no candidate needs any more."""
        with self.lock:
            self.pending[subject.hash] -= 1
            last = not self.pending[subject.hash]
        if last:
            (self.folder.path / f"case-{subject.hash}").unlink(missing_ok=True)


def batch_size(how: Measure) -> int:
    """The most candidates that are built together."""
    return TOGETHER if how.seconds is None else FEW


def together(
    items: Sequence[T], subject_of: Callable[[T], Subject], most: int
) -> Iterator[list[T]]:
    """Batches of at most ``most`` items that read at most `BYTES`, or of one item."""
    part: list[T] = []
    size = 0
    for item in items:
        more = sum(prod(b.shape) * 4 for b in subject_of(item).buffers)
        if part and (len(part) == most or size + more > BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


def _modules(candidates: Sequence[Candidate]) -> list[str]:
    """The modules of the backends, which may register functions that their code calls."""
    converters = (c.by.backend.convert for c in candidates if c.by is not None)
    modules = {str(getattr(f, "__module__", None) or "__main__") for f in converters}
    return sorted(modules - {"__main__"})


def _reference(how: Measure) -> str:
    """The target that computes cases: what is measured if that runs here, so it is built once."""
    runs = how.on_gpu or str(tvm.target.Target(how.target).kind.name) == "llvm"
    return how.machine.target if runs and how.tracker is None else str(tvm.target.Target(HOST))


def _servers(tracker: Tracker, seconds: float) -> int:
    """The number of servers; waits for one that is restarting."""
    end = time.monotonic() + min(seconds, RESTART)
    while not (count := tracker.servers()):
        if time.monotonic() > end:
            raise MeasureError(f"tracker {tracker} has no servers with this key")
        time.sleep(0.2)
    return count


def _function(library: Path | Excluded, number: int, count: int) -> BuiltCandidate | Excluded:
    if isinstance(library, Excluded):
        return library
    return BuiltCandidate(library, f"main_{number}", count == 1)


def _once(lock: threading.Lock, memory: dict[K, Future[T]], key: K, make: Callable[[], T]) -> T:
    """A value that the first thread computes, while the others wait for it."""
    with lock:
        is_first = key not in memory
        future = memory.setdefault(key, Future())
    if is_first:
        try:
            future.set_result(make())
        except BaseException as error:
            future.set_exception(error)
    return future.result()
