"""Candidates of one kernel, built apart and timed through an RPC tracker, one after the other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import tvm

from ...byoc.codegen import trust
from ...byoc.measure import Excluded, Measure, Measured, MeasureError
from ...byoc.measure.measure_jobs import Unreachable
from ...byoc.measure.processes import Died, Processes
from ...byoc.measure.servers import LocalServers
from ...byoc.measure.subject import Buffer
from .tune_jobs import BuildKernel, RunKernel, TimeKernel

#: Servers to try that are gone when they are reached.
ATTEMPTS = 3
GRACE = 15.0


class Bench:
    """Processes and servers for any number of kernels. To be closed."""

    def __init__(self, how: Measure) -> None:
        self.how = how
        self.folder = trust.temporary("opinfo-tune-")
        self.numbers = itertools.count()
        self.closed = threading.Event()
        self.processes = Processes(
            Path(self.folder.name), how.threads, [f"{__package__}.tune_jobs"]
        )
        self.local: LocalServers | None = None
        if how.tracker is None:
            self.local = LocalServers(self.processes, how.number)
        self.tracker = how.tracker or self.local.address  # type: ignore[union-attr]
        self.builders = ThreadPoolExecutor(how.number, "opinfo tune")

    def close(self) -> None:
        self.closed.set()
        if self.local is not None:
            self.local.close()
        self.processes.close()
        self.builders.shutdown(cancel_futures=True)
        self.folder.cleanup()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def case(self, mod: Any, buffers: tuple[Buffer, ...]) -> Path | Excluded:
        """What the kernel computes as it is, on this machine, on seeded values."""
        library = self.build(mod, "llvm")
        if isinstance(library, Excluded):
            return library
        path = Path(self.folder.name) / f"case{next(self.numbers)}"
        failed = self._run(RunKernel(str(library), buffers, str(path)), self.how.timeout, "it")
        library.unlink(missing_ok=True)
        return failed if isinstance(failed, Excluded) else path

    def measure(self, mods: Sequence[Any], target: Any, case: Path) -> list[Measured | Excluded]:
        """All are built, then each is checked and timed: nothing else runs on this machine."""
        built = list(self.builders.map(lambda m: self.build(m, str(target)), mods))
        return [b if isinstance(b, Excluded) else self.timed(b, target, case) for b in built]

    def in_turns(
        self, mods: Sequence[Any], target: Any, case: Path, rounds: int = 3
    ) -> list[Measured | Excluded]:
        """The median of several times of each; what was excluded once is."""
        times = [self.measure(mods, target, case) for _ in range(rounds)]
        out: list[Measured | Excluded] = []
        for found in zip(*times, strict=True):
            bad = next((r for r in found if isinstance(r, Excluded)), None)
            good = [r.microseconds for r in found if isinstance(r, Measured)]
            out.append(bad or Measured(median(good)))
        return out

    def build(self, mod: Any, target: str) -> Path | Excluded:
        to = Path(self.folder.name) / f"kernel{next(self.numbers)}.so"
        job = BuildKernel(tvm.ir.save_json(mod), target, str(to))
        failed = self._run(job, self.how.build_timeout, "its compiler")
        return failed if isinstance(failed, Excluded) else to

    def timed(self, library: Path, target: Any, case: Path) -> Measured | Excluded:
        kind = str(target.kind.name)
        device = "cpu" if kind in ("llvm", "c") else kind
        effort, reason = self.how.effort, ""
        try:
            for _ in range(ATTEMPTS):
                server = self.tracker.request(self.how.wait, self.closed)
                job = TimeKernel(str(library), str(case), server, device, effort)
                found = self.processes.run(job, effort.timeout + GRACE)
                if not isinstance(found, Unreachable):
                    assert isinstance(found, Measured | Excluded)
                    return found
                reason = found.reason
        except TimeoutError:
            return Excluded(f"it hangs: its server does not answer after {effort.timeout:g} s")
        except Died as e:
            return Excluded(f"it crashes: what talks to its server ended with {e}")
        finally:
            library.unlink(missing_ok=True)
        raise MeasureError(f"tracker {self.tracker}: servers cannot be reached: {reason}")

    def _run(self, job: Any, timeout: float, what: str) -> Excluded | None:
        try:
            failed = self.processes.run(job, timeout)
        except TimeoutError as e:
            return Excluded(f"{what} hangs: {e}")
        except Died as e:
            return Excluded(f"{what} crashes: {e}")
        return None if failed is None else Excluded(f"{what} fails: {failed}")
