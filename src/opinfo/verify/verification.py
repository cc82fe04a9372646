"""`opinfo compile`: a model as one shared library, compared with the unmodified module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..analysis.support.progress import stage
from ..analysis.support.wording import faster, plural
from ..byoc.building.build_library import on_gpu
from ..byoc.building.read_target import read_target
from ..byoc.codegen.executable import executable
from ..byoc.codegen.toolchain import shared
from ..byoc.compile import CompiledModule
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.measure import Excluded, Timing
from ..byoc.process.folder import Folder
from ..jit.compile.compile_shapes import CompiledShapes
from ..layout.report.plan_report import columns
from ..report.regions import reasons
from .time_builds import time_builds

Array = np.ndarray[Any, Any]
#: The largest difference to accept, relative to an output's largest value.
TOLERANCE = 1e-3
#: The same where values are quantised: two of the 127 steps to the largest one. A sum that rounds
#: elsewhere may be quantised to the step beside it, and so may what is made of it.
STEPS = 2 / 127
#: What a symbolic extent is in a trial.
EXTENT = 2
TIMES = ("build", "median ms", "speed")


def explained(done: Dispatched) -> list[str]:
    """Lines on the ops that stayed with TVM, on what failed, and on what rounds elsewhere."""
    rounds = Counter((t.backend, t.rounds) for t in done.taken if t.rounds)
    return [
        *reasons(done.left),
        *map(str, done.failed),
        *(f"{plural(n, 'region')} of {backend}: {how}" for (backend, how), n in rounds.items()),
        *_timed(done.timings),
    ]


def _timed(timings: Sequence[Timing]) -> list[str]:
    """How many candidates were timed, and those that were excluded."""
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
    """The compiled library beside the unmodified module, which TVM builds by itself.

    ``difference`` is the largest one of the outputs on seeded inputs, relative to an output's
    largest value; NaN if one has another shape, or is not finite where the other is. Times are
    medians in milliseconds, of as many ``runs`` each, in turns, after one that does not count; both
    had the same number of ``threads``. ``tolerance``: the difference that is accepted.
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
        """What `TIMES` names, of both."""
        return [("unmodified", f"{self.unmodified:.3f}", ""),
                ("compiled", f"{self.compiled:.3f}", self.speed())]  # fmt: skip

    def speed(self) -> str:
        """Of the library beside the unmodified module: ``27x faster``."""
        return faster(self.unmodified, self.compiled)

    def table(self) -> str:
        head = f"{TIMES[1]} of {self.runs}, {plural(self.threads, 'thread')}"
        return columns((TIMES[0], head, TIMES[2]), self.rows())

    def outcome(self) -> str:
        """How far the outputs differ, in one line."""
        line = f"outputs differ by {self.difference:.1e} of their largest value"
        if self.tolerance == TOLERANCE:
            return line
        return f"{line}; values are quantised, {self.tolerance:.1e} is accepted"

    def advice(self) -> str:
        """What to check where the library is slower; empty where it is not."""
        if not self.speed().endswith("slower"):
            return ""
        return (f"the compiled build is slower with {plural(self.threads, 'thread')}; where you "
                "run it, set OMP_NUM_THREADS and TVM_NUM_THREADS to the target's num-cores "
                "(without OMP_NUM_THREADS, oneDNN takes all cores)")  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.table(), self.outcome(), self.advice())))


def verified(
    mod: Any, found: CompiledModule | CompiledShapes, target: Any = "llvm", seed: int = 0
) -> Verified:
    """Run both on the same inputs; each of ``mod``'s symbolic extents is `EXTENT`.

    Args:
        mod: The unmodified module.
        found: What it was compiled to.
        target: TVM's, for the unmodified module; a GPU's stands for the CPU.
        seed: Of the inputs.
    """
    values = [tvm.runtime.tensor(a) for a in trial_inputs(mod, seed)]
    host = tvm.target.Target("llvm") if on_gpu(target) else read_target(target)
    plain = executable(mod, host)
    before = relax.VirtualMachine(plain, tvm.cpu())["main"]
    after = relax.VirtualMachine(tvm.runtime.load_module(str(found.library)), tvm.cpu())["main"]
    stage("comparing with the unmodified model")
    pairs = zip(_flat(after(*values)), _flat(before(*values)), strict=True)
    worst = max((difference(b, a) for a, b in pairs), key=lambda d: (d != d, d), default=0.0)
    threads = int(host.attrs.get("num-cores") or 1)
    folder = Folder("opinfo-")
    try:
        plain.export_library(str(folder.path / "plain.so"), fcompile=shared)
        one, two = time_builds((found.library, folder.path / "plain.so"), values, threads)
    finally:
        folder.remove()
    tolerance = STEPS if _quantises(found.dispatched) else TOLERANCE
    return Verified(worst, median(one), median(two), len(one), tolerance, threads)


def _quantises(done: Dispatched | None) -> bool:
    """Whether something is rounded to few steps."""
    if done is None:
        return False
    names = {op for t in done.taken for op in t.ops} | {o.op for o in done.left}
    return "relax.quantize" in names


def difference(a: Array, b: Array) -> float:
    """The largest one, relative to the largest value of ``a``; NaN as in `Verified`."""
    if a.shape != b.shape:
        return float("nan")
    one, two = a.astype("float64"), b.astype("float64")
    if not np.array_equal(np.isfinite(one), np.isfinite(two)):
        return float("nan")
    scale = max(float(np.abs(one[np.isfinite(one)]).max(initial=0)), 1e-30)
    apart = np.abs(one - two)
    return float(apart[np.isfinite(apart)].max(initial=0)) / scale


def trial_inputs(mod: Any, seed: int) -> list[Array]:
    """Seeded values of the parameters of `main`: integers are 0 or 1."""
    rng = np.random.default_rng(seed)
    out = []
    for p in mod["main"].params:
        shape = [int(getattr(e, "value", EXTENT)) for e in p.ty.shape.values]
        dtype = str(p.ty.dtype)
        drawn = rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 2, shape)
        out.append(drawn.astype(dtype))
    return out


def _flat(result: Any) -> Sequence[Array]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for part in result for array in _flat(part)]
