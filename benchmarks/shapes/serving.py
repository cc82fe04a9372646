"""What requests see while kernels are compiled, under a storm of shapes, and after a restart.

    python -m benchmarks.shapes.serving [--seconds S] [latency | storm | restart ...]

`latency`: requests of the MLP, one after another, by a session with `jit` and by one with `generic`
in turns, while kernels are compiled: the 50th and 99th percentile of each and their ratios, and
the first call of a shape against the generic kernel's. `storm`: 1,000 shapes under a budget of 32
kernels: resident memory over that of the generic kernels alone, and the time of a call. `restart`:
a second session over the kernels on disk: how many come from there, and milliseconds for each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import use_threads

from . import models

PAGE = 4096


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def timed(call: Callable[[], Any]) -> float:
    """Microseconds."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def latency(seconds: float) -> None:
    import tvm

    from opinfo.jit import Session, compile_shapes

    mod = models.module("mlp")
    with Session(compile_shapes(mod, "jit")) as ours, \
            Session(compile_shapes(mod, "generic")) as generic:  # fmt: skip
        rng = np.random.default_rng(0)
        sizes = [int(n) for n in rng.integers(1, 65, 64)]
        inputs = {n: tvm.runtime.tensor(models.given("mlp", n)) for n in set(sizes)}
        for n in inputs:
            generic(inputs[n])
        first = [(timed(lambda n=n: ours(inputs[n])), timed(lambda n=n: generic(inputs[n])))
                 for n in inputs]  # fmt: skip
        both: tuple[list[float], list[float]] = ([], [])
        end, k = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            x = inputs[sizes[k % len(sizes)]]
            order = (0, 1) if k % 2 else (1, 0)
            for which in order:
                both[which].append(timed(lambda s=(ours, generic)[which], x=x: s(x)))
            k += 1
        counts = ours.stats().counts
    extra = max(a - b for a, b in first) / 1e3
    print(f"latency: first call of a shape at most {extra:.2f} ms over generic")
    for q in (50, 99, 99.9):
        a, b = (float(np.percentile(v, q)) for v in both)
        print(f"latency: p{q:g} {a:.0f} us, generic only {b:.0f} us, {a / b:.2f} x "
              f"({len(both[0])} requests, {dict(counts)})")  # fmt: skip


def storm(seconds: float) -> None:
    import tvm

    from opinfo.jit import Budget, Session, compile_shapes

    mod = models.module("mlp")
    budget = Budget(kernels=32, bytes=4 << 20)
    with Session(compile_shapes(mod, "jit"), budget=budget) as ours, \
            Session(compile_shapes(mod, "generic")) as generic:  # fmt: skip
        sizes = [int(n) for n in np.random.default_rng(0).permutation(1000) + 1]
        for n in (*sizes, *sizes):  # what TVM's pool of buffers takes is there before
            generic(tvm.runtime.tensor(models.given("mlp", n)))
        ratios: list[float] = []
        before, most = resident(), 0
        end, k = time.monotonic() + seconds, 0
        while time.monotonic() < end or k < 3000:
            x = tvm.runtime.tensor(models.given("mlp", sizes[k % 1000]))
            if k % 2:
                a, b = timed(lambda x=x: ours(x)), timed(lambda x=x: generic(x))
            else:
                b, a = timed(lambda x=x: generic(x)), timed(lambda x=x: ours(x))
            ratios.append(a / b)
            most = max(most, resident() - before)
            k += 1
        told = ours.stats()
    print(f"storm: {k} calls of 1000 shapes: {told}")
    print(f"storm: a call takes {statistics.median(ratios):.3f} x generic's (median); resident "
          f"+{most / 2**20:.1f} MiB at most over generic's, budget "
          f"{budget.bytes / 2**20:.0f} MiB")  # fmt: skip


def restart(seconds: float) -> None:
    import tvm

    from opinfo.jit import KernelStore, Session, compile_shapes

    compiled = compile_shapes(models.module("mlp"), "jit")
    inputs = [tvm.runtime.tensor(models.given("mlp", n)) for n in range(1, 21)]
    with tempfile.TemporaryDirectory() as folder:
        for times in (1, 2):
            with Session(compiled, store=KernelStore(folder)) as session:
                for x in inputs:
                    session(x), session(x)
                session.settle(600)
                told = session.stats()
            loaded = [e.milliseconds for e in told.events if e.what == "loaded"]
            share = len(loaded) / max(len(told.events), 1)
            typical = f"{statistics.median(loaded):.2f} ms each" if loaded else ""
            print(
                f"restart: session {times}: {share:.0%} of {len(told.events)} from disk {typical}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.shapes.serving", description=__doc__,
                                     formatter_class=how)  # fmt: skip
    parser.add_argument("what", nargs="*", choices=["latency", "storm", "restart", []], default=[])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each stream")
    options = parser.parse_args(arguments)
    use_threads(1)
    warnings.simplefilter("ignore")
    for name in options.what or ("latency", "storm", "restart"):
        globals()[name](options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
