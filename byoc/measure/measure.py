"""How to measure: where, with how much effort, and where results are kept."""

from __future__ import annotations

import copy
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import tvm

from ..codegen.host_target import model_name
from ..codegen.loading.cuda_device import cuda_device, needed_gpu, no_runtime
from .candidate import TimingMachine
from .database import Database
from .measure_jobs import Effort
from .subject import LIKELY, Extents
from .tracker import Tracker

Progress = Callable[[int, int, str], None]
"""Called with the number of candidates done, their total, and the name of the last one."""


@dataclass(frozen=True)
class Measure:
    """How to measure candidates: built in separate processes, timed through an RPC tracker.

    Attributes:
        database: A JSON Lines file that keeps the times. Candidates in it are not measured again.
        tracker: The tracker of remote servers; None starts local servers.
        servers: The number of local servers; by default as many as the CPUs allow, and one for a
            GPU, as its candidates would share it.
        threads: Threads of each local server.
        timeout: Seconds after which a running candidate is stopped.
        build_timeout: Seconds after which its compiler is stopped.
        wait: Seconds to wait for a server.
        repeat: The number of timings of each candidate.
        milliseconds: The length of each timing, which is as many calls as that takes.
        least: Take the least of the timings, not their median: on a busy machine.
        extents: Likely values of symbolic extents, by name; by default 16. The cost is the mean
            over the first values of all extents, the second values, and so on.
        target: TVM's target: a CPU's or a GPU's.
        progress: Called with the number of finished candidates, the total and a name.
        seconds: Seconds after which measuring ends, from the first candidate of each dispatch or
            compilation on; None for no limit. Candidates are measured in the order in which they
            are given, and the rest has no times.
        checked: Compare results with those of TVM's code. What is not compared cannot be stored:
            False excludes a ``database``, as its times would count as checked.
    """

    database: str | Path | None = None
    tracker: Tracker | None = None
    servers: int | None = None
    threads: int = 1
    timeout: float = 60.0
    build_timeout: float = 300.0
    wait: float = 300.0
    repeat: int = 11
    extents: Mapping[str, Sequence[int]] = field(default_factory=dict)
    target: str = "llvm"
    progress: Progress | None = None
    milliseconds: int = 5
    least: bool = False
    seconds: float | None = None
    checked: bool = True

    def __post_init__(self) -> None:
        for name in ("servers", "threads", "timeout", "build_timeout", "wait", "repeat",
                     "milliseconds", "seconds"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Measure: {name} must be positive, got {value!r}")
        for name, values in self.extents.items():
            if isinstance(values, int) or not values or not all(v > 0 for v in values):
                raise ValueError(f"Measure: extents[{name!r}] must be positive numbers in a "
                                 f"sequence, got {values!r}")  # fmt: skip
        if not self.checked and self.database is not None:
            raise ValueError(f"Measure: checked=False with database={str(self.database)!r} would "
                             "store times of unchecked results: omit one of them")  # fmt: skip

    @cached_property
    def store(self) -> Database:
        return Database(self.database)

    @cached_property
    def deadline(self) -> float:
        """When measuring ends, by the monotonic clock; ``seconds`` count from the first access."""
        return math.inf if self.seconds is None else time.monotonic() + self.seconds

    def anew(self) -> Measure:
        """The same for another module: with the same store, but ``seconds`` start again."""
        if self.seconds is None:
            return self
        _ = self.store  # which both have then, in memory too
        other = copy.copy(self)
        other.__dict__.pop("deadline", None)
        return other

    @property
    def effort(self) -> Effort:
        return Effort(self.repeat, self.milliseconds, timeout=self.timeout, least=self.least)

    @property
    def number(self) -> int:
        """The number of local servers."""
        return self.servers or (1 if self.on_gpu else max(1, _cpus() // self.threads))

    @property
    def builders(self) -> int:
        """How many libraries are built at once; a GPU times one candidate meanwhile."""
        alone = self.on_gpu and self.tracker is None
        return max(self.number, min(8, _cpus() // 2)) if alone else self.number

    @cached_property
    def on_gpu(self) -> bool:
        """Whether candidates run on NVIDIA's GPUs."""
        if "cuda" in self.target:
            no_runtime()  # TVM asks the GPU of this machine what the target leaves open
        return str(tvm.target.Target(self.target).kind.name) == "cuda"

    @property
    def machine(self) -> TimingMachine:
        """Where candidates run. Raises as `check` does."""
        self.check()
        target = str(tvm.target.Target(self.target))  # one spelling: times are stored under it
        if self.tracker is not None:
            return TimingMachine(target, f"fleet {self.tracker.key}", 0)
        if self.on_gpu:
            return TimingMachine(target, str(cuda_device().device_name), self.threads)
        return TimingMachine(target, f"{platform.machine()} {model_name()}".strip(), self.threads)

    def check(self) -> None:
        """Raise `NoGpu` if candidates would run on a GPU of this machine, and none is visible."""
        if self.on_gpu and self.tracker is None:
            needed_gpu("nothing can be measured here (name the RPC tracker of a GPU)")

    @property
    def points(self) -> list[Extents]:
        """The assignments of extents to measure at."""
        count = max(map(len, self.extents.values()), default=1)
        return [{n: v[min(k, len(v) - 1)] for n, v in self.extents.items()} for k in range(count)]


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ["LIKELY", "Measure", "Progress"]
