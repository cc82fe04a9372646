"""Build candidates of a kernel in separate processes, and time them through an RPC tracker."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import tvm

from ...byoc.measure import Excluded, Measure, Measured
from ...byoc.measure.bench import Bench
from ...byoc.measure.measure_jobs import NotLoaded
from ...byoc.measure.subject import Buffer
from .tune_jobs import BuildKernel, RunKernel, TimeKernel


class KernelBench(Bench):
    """A bench for any number of kernels; close it after use."""

    def __init__(self, how: Measure) -> None:
        super().__init__(how, [BuildKernel.__module__])
        self.builders = ThreadPoolExecutor(how.number, "opinfo tune")

    def close(self) -> None:
        super().close()
        self.builders.shutdown(cancel_futures=True)
        self.remove()

    def __enter__(self) -> KernelBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def case(self, mod: Any, buffers: tuple[Buffer, ...]) -> Path | Excluded:
        """Compute reference results of the unscheduled kernel on seeded inputs."""
        library = self.build(mod, "llvm")
        if isinstance(library, Excluded):
            return library
        path = self.path("case")
        failed = self._run(RunKernel(str(library), buffers, str(path)), self.how.timeout, "it")
        library.unlink(missing_ok=True)
        return failed or path

    def measure(self, mods: Sequence[Any], target: Any, case: Path) -> list[Measured | Excluded]:
        """Build all, then check and time them one by one, so that nothing else runs meanwhile."""
        built = list(self.builders.map(lambda m: self.build(m, str(target)), mods))
        return [b if isinstance(b, Excluded) else self.timed_kernel(b, target, case) for b in built]

    def in_turns(
        self, mods: Sequence[Any], target: Any, case: Path, rounds: int = 3
    ) -> list[Measured | Excluded]:
        """Return the median time of each over several rounds; one exclusion excludes it."""
        times = [self.measure(mods, target, case) for _ in range(rounds)]
        out: list[Measured | Excluded] = []
        for repeats in zip(*times, strict=True):
            bad = next((r for r in repeats if isinstance(r, Excluded)), None)
            good = [r.microseconds for r in repeats if isinstance(r, Measured)]
            out.append(bad or Measured(median(good)))
        return out

    def build(self, mod: Any, target: str) -> Path | Excluded:
        to = self.path("kernel.so")
        job = BuildKernel(tvm.ir.save_json(mod), target, str(to))
        return self._run(job, self.how.build_timeout, "its compiler") or to

    def timed_kernel(self, library: Path, target: Any, case: Path) -> Measured | Excluded:
        try:
            result = self.timed(target, lambda server: TimeKernel(str(library), str(case), server))
        finally:
            library.unlink(missing_ok=True)
        return result.excluded if isinstance(result, NotLoaded) else result

    def _run(self, job: Any, timeout: float, what: str) -> Excluded | None:
        failed = self.run(job, timeout, what)
        if failed is None or isinstance(failed, Excluded):
            return failed
        return Excluded(f"{what} fails: {failed}")
