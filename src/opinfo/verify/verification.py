"""Compare a compiled model with the unmodified module, and time both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from ..analysis.proposal.legalise import legalise_module
from ..analysis.support.progress import stage
from ..analysis.support.wording import faster, plural
from ..byoc.building.build_library import on_gpu
from ..byoc.building.read_target import read_target
from ..byoc.codegen.executable import executable
from ..byoc.codegen.export import export_library
from ..byoc.codegen.loading.cuda_device import needed_gpu
from ..byoc.compile import CompiledModule
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.measure import Excluded, Timing
from ..byoc.prepare.fuse import fuse
from ..byoc.prepare.unwritten.defined_loops import defined_loops
from ..byoc.process.temporary_folder import TemporaryFolder
from ..layout.report.plan_report import columns
from ..report.regions import costs, reasons
from .timing_process import GPU
from .trial_inputs import trial_inputs
from .trial_runs import trial_runs
from .trial_values import TrialCall, flat

if TYPE_CHECKING:
    from ..jit.compile.compile_shapes import CompiledShapes

Array = np.ndarray[Any, Any]
#: The largest difference to accept, relative to an output's largest value.
TOLERANCE = 1e-3
#: The same for quantised values: two of the 127 steps. A sum that rounds differently may be
#: quantised to the neighbouring step, and so may later values.
STEPS = 2 / 127
#: Operators that round values to steps: `relax.round` when a model quantises dynamically.
ROUNDING = frozenset({"relax.quantize", "relax.round", "relax.nn.quantized_lstm"})
TIMES = ("build", "median ms", "speed")


def explained(dispatched: Dispatched) -> list[str]:
    """Return lines about operators that stay with TVM, failures, rounding, times and costs."""
    rounds = Counter((t.backend, t.rounds) for t in dispatched.taken if t.rounds)
    return [
        *reasons(dispatched.left),
        *map(str, dispatched.failed),
        *(f"{plural(n, 'region')} of {backend}: {how}" for (backend, how), n in rounds.items()),
        *_timed(dispatched.timings),
        *(f"{backend} takes {regions} x {ops}: {lines}"
          for backend, ops, regions, lines in costs(dispatched)),
    ]  # fmt: skip


def _timed(timings: Sequence[Timing]) -> list[str]:
    """Return lines about measured and excluded candidates."""
    if not timings:
        return []
    bad = [t for t in timings if isinstance(t.result, Excluded)]
    new = sum(not t.known for t in timings)
    return [
        f"{plural(len(timings), 'candidate')}, {new} measured now, {len(bad)} excluded",
        *(f"{t.backend} for {', '.join(t.ops)} of {', '.join(t.shapes)}: {t.result}" for t in bad),
    ]


@dataclass(frozen=True)
class Verified:
    """The comparison of a compiled library with the unmodified module.

    Attributes:
        difference: The largest difference of the outputs, relative to an output's largest value.
            NaN if shapes differ, or if only one of two elements is finite.
        compiled: Median milliseconds of the library.
        unmodified: Median milliseconds of the unmodified module.
        runs: Timed runs of each, alternating, after a warm-up.
        threads: The number of threads of both.
        tolerance: The accepted difference.
    """

    difference: float
    compiled: float
    unmodified: float
    runs: int
    tolerance: float = TOLERANCE
    threads: int = 1

    @property
    def same(self) -> bool:
        return self.difference <= self.tolerance

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a row of `TIMES` for each build."""
        return [("unmodified", f"{self.unmodified:.3f}", ""),
                ("compiled", f"{self.compiled:.3f}", self.speed())]  # fmt: skip

    def speed(self) -> str:
        """Return the speed of the library relative to the unmodified module: ``27x faster``."""
        return faster(self.unmodified, self.compiled)

    def table(self) -> str:
        head = f"{TIMES[1]} of {self.runs}, {plural(self.threads, 'thread')}"
        return columns((TIMES[0], head, TIMES[2]), self.rows())

    def outcome(self) -> str:
        """Return the difference of the outputs in one line."""
        line = f"outputs differ by {self.difference:.1e} of their largest value"
        if self.tolerance == TOLERANCE:
            return line
        return f"{line}; values are quantised, {self.tolerance:.1e} is accepted"

    def advice(self) -> str:
        """Return what to check if the library is slower; empty if it is not."""
        if not self.speed().endswith("slower"):
            return ""
        return (f"the compiled build is slower with {plural(self.threads, 'thread')}; where you "
                "run it, set OMP_NUM_THREADS and TVM_NUM_THREADS to the target's num-cores "
                "(without OMP_NUM_THREADS, libraries such as oneDNN use all cores)")  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.table(), self.advice(), self.outcome())))


def verified(
    mod: Any, result: CompiledModule | CompiledShapes, target: Any = "llvm", seed: int = 0
) -> Verified:
    """Run both on the same inputs, with symbolic extents set to `trial_inputs.EXTENT`.

    Args:
        mod: The unmodified module.
        result: The compile result.
        target: TVM's target of the result; the unmodified module runs on the CPU.
        seed: Seed of the inputs.

    Raises:
        NoGpu: The result is for a GPU, and none is visible.
    """
    gpu = on_gpu(target)
    device = needed_gpu("verify") if gpu else tvm.cpu()
    values = [tvm.runtime.tensor(a) for a in trial_inputs(mod, seed)]
    host = tvm.target.Target("llvm") if gpu else read_target(target)
    plain = executable(defined_loops(fuse(legalise_module(mod))), host)
    before = relax.VirtualMachine(plain, tvm.cpu())["main"]
    after = relax.VirtualMachine(tvm.runtime.load_module(str(result.library)), device)["main"]
    stage("comparing with the unmodified model")
    results = _arrays(after(*(value.copyto(device) for value in values)))
    pairs = zip(results, _arrays(before(*values)), strict=True)
    worst = max((difference(b, a) for a, b in pairs), key=lambda d: (d != d, d), default=0.0)
    threads = int(host.attrs.get("num-cores") or 1)
    folder, calls = TemporaryFolder("opinfo-"), [TrialCall("main", tuple(values))]
    try:
        export_library(plain, folder.path / "plain.so")
        libraries = [result.library, folder.path / "plain.so"]
        if gpu:
            runs = [*trial_runs(libraries[:1], calls, threads, device=GPU),
                    *trial_runs(libraries[1:], calls, threads)]  # fmt: skip
        else:
            runs = trial_runs(libraries, calls, threads)
        compiled, unmodified = (run.times for run in runs)
    finally:
        folder.remove()
    tolerance = tolerance_of(result.dispatched)
    return Verified(worst, median(compiled), median(unmodified), len(compiled), tolerance, threads)


def tolerance_of(dispatched: Dispatched | None) -> float:
    """Return the accepted difference of outputs, which is larger where values are rounded."""
    if dispatched is None:
        return TOLERANCE
    names = {op for t in dispatched.taken for op in t.ops} | {o.op for o in dispatched.left}
    return TOLERANCE if names.isdisjoint(ROUNDING) else STEPS


def difference(a: Array, b: Array) -> float:
    """Return the largest difference relative to the largest value of ``a``; see `Verified`."""
    if a.shape != b.shape:
        return float("nan")
    first, second = a.astype("float64"), b.astype("float64")
    if not np.array_equal(np.isfinite(first), np.isfinite(second)):
        return float("nan")
    scale = max(float(np.abs(first[np.isfinite(first)]).max(initial=0)), 1e-30)
    distances = np.abs(first - second)
    return float(distances[np.isfinite(distances)].max(initial=0)) / scale


def _arrays(result: Any) -> list[Array]:
    return [tensor.numpy() for tensor in flat(result)]
