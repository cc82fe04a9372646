"""Measure the latency of requests while kernels are compiled, and after a restart.

    python -m benchmarks.shapes.serving [--seconds S] [latency | restart ...]

`latency`: requests of the MLP, one after another, by a session with `jit` and by one with `generic`
in turns, while kernels are compiled: the 50th and 99th percentile of each and their ratios, and
the first call of a shape against the generic kernel's. `restart`: a second process over the kernels
on disk: how many come from there, and milliseconds for each, from the shape being seen to its
kernel being in place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import symbolic_models
from benchmarks.common.resources import percentile, use_threads
from benchmarks.common.rows import run_worker


def timed(call: Callable[[], Any]) -> float:
    """Return the microseconds of a call."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def latency(seconds: float) -> None:
    import tvm

    from opinfo.jit import Session, compile_shapes

    mod = symbolic_models.module("mlp")
    with Session(compile_shapes(mod, "jit")) as ours, \
            Session(compile_shapes(mod, "generic")) as generic:  # fmt: skip
        rng = np.random.default_rng(0)
        sizes = [int(n) for n in rng.integers(1, 65, 64)]
        inputs = {n: tvm.runtime.tensor(symbolic_models.input_of("mlp", n)) for n in set(sizes)}
        for n in inputs:
            generic(inputs[n])
        first = [(timed(lambda n=n: ours(inputs[n])), timed(lambda n=n: generic(inputs[n])))
                 for n in inputs]  # fmt: skip
        both: tuple[list[float], list[float]] = ([], [])
        end, k = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            tensor = inputs[sizes[k % len(sizes)]]
            order = (0, 1) if k % 2 else (1, 0)
            for which in order:
                both[which].append(timed(lambda s=(ours, generic)[which], x=tensor: s(x)))
            k += 1
        counts = ours.stats().counts
    extra = max(a - b for a, b in first) / 1e3
    print(f"latency: first call of a shape at most {extra:.2f} ms over generic")
    for percent in (50, 99, 99.9):
        a, b = (float(np.percentile(v, percent)) for v in both)
        print(f"latency: p{percent:g} {a:.0f} us, generic only {b:.0f} us, {a / b:.2f} x "
              f"({len(both[0])} requests, {dict(counts)})")  # fmt: skip


def restart(seconds: float) -> None:
    from opinfo.jit import compile_shapes

    with tempfile.TemporaryDirectory() as name:
        library, kernels = str(Path(name) / "model.so"), str(Path(name) / "kernels")
        compile_shapes(symbolic_models.module("mlp"), "jit").export(library)
        for number in (1, 2):
            events = run_worker("benchmarks.shapes.serving", library, kernels)
            loaded = [took for what, took in events if what == "loaded"]
            each = (f": {statistics.median(loaded):.2f} ms each, the first {loaded[0]:.2f}, 95% "
                    f"{percentile(loaded, 0.95):.2f}" if loaded else "")  # fmt: skip
            print(f"restart: process {number}: {len(loaded)} of {len(events)} from disk{each}")


def worker(library: str, kernels: str) -> list[tuple[str, float]]:
    """Serve requests; return the event and the milliseconds of each kernel."""
    import tvm

    from opinfo.jit import KernelStore, Session

    with Session(library, store=KernelStore(kernels)) as session:
        for n in range(1, 21):
            tensor = tvm.runtime.tensor(symbolic_models.input_of("mlp", n))
            session(tensor), session(tensor)
        if not session.settle(600):
            raise RuntimeError("kernels are not compiled after ten minutes")
        return [(e.what, e.milliseconds) for e in session.stats().events]


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--worker"]:
        use_threads(1)
        print(json.dumps(worker(*words[1:])))
        return 0
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.shapes.serving", description=__doc__,
                                     formatter_class=how)  # fmt: skip
    parser.add_argument("what", nargs="*", choices=["latency", "restart", []], default=[])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each stream")
    options = parser.parse_args(words)
    use_threads(1)
    warnings.simplefilter("ignore")
    for name in options.what or ("latency", "restart"):
        globals()[name](options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
