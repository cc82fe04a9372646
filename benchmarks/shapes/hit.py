"""Time a call site of a symbolic function over a plain `call_tir`, by the shapes it holds.

    python -m benchmarks.shapes.hit [--calls N]

Compares two builds of a chain of small kernels; the second has call sites with the kernels of the
first, so that only the sites differ. Medians of calls taken in turns, one thread. `miss` is a site
that lacks the kernel of a shape and has already requested it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common.resources import use_threads

CHAIN, WIDTH = 64, 16
HELD = (1, 4, 32, 256)


def chain() -> Any:
    """Return CHAIN calls of softmax on x: (n, WIDTH), each a call of its own."""
    from tvm import relax, tirx

    from opinfo.byoc.prepare.fuse import fuse
    from tests.layout import nets

    def build(emit: Any, rng: Any, x: Any) -> Any:
        for _ in range(CHAIN):
            x = emit(relax.op.nn.softmax(x))  # does not fuse with the next
        return x

    return fuse(nets.net(build, (tirx.Var("n", "int64"), WIDTH)))


def built(mod: Any, folder: str, name: str) -> Any:
    """Build and load a library without scheduling."""
    import tvm

    from opinfo.jit.compile.compile_shapes import OPTIONS

    path = f"{folder}/{name}.so"
    tvm.compile(mod, target="llvm").export_library(path, options=OPTIONS)
    return tvm.runtime.load_module(path)


def nanoseconds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median nanoseconds of one kernel of the chain, for each call."""
    times: dict[str, list[float]] = {k: [] for k in calls}
    for k in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(20):
                call()
            if k:
                times[name].append((time.perf_counter_ns() - start) / 20 / CHAIN)
    return {k: statistics.median(v) for k, v in times.items()}


def main() -> int:
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.shapes.hit", description=__doc__,
                                     formatter_class=how)  # fmt: skip
    parser.add_argument("--rounds", type=int, default=201)
    options = parser.parse_args()
    use_threads(1)
    import tempfile

    import tvm
    from tvm import relax

    from opinfo.jit import Config, specialize_shapes
    from opinfo.jit.kernels.build_kernel import compiled
    from opinfo.jit.runtime.library import Sites

    mod = chain()
    func = next(f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    with tempfile.TemporaryDirectory() as folder:
        plain = built(mod, folder, "plain")
        sited = built(specialize_shapes(mod, Config("jit")).module, folder, "sited")
        tensor = tvm.runtime.tensor(np.ones((1, WIDTH), "float32"))
        mains = {n: relax.VirtualMachine(lib, tvm.cpu())["main"]
                 for n, lib in (("plain", plain), ("sited", sited))}  # fmt: skip
        sites = Sites(sited)
        compiled(func, "llvm", "kernel").export_library(f"{folder}/kernel.so")
        kernel = tvm.runtime.load_module(f"{folder}/kernel.so")["kernel"]
        for count in (0, *HELD):
            sites.open(1)
            for site in sites.sites:
                sites.configure(site, "jit", 4096)
                for n in range(1, count + 1):
                    sites.insert(site.place, (n,), kernel, f"{folder}/kernel.so", "kernel")
            times = nanoseconds(
                {k: (lambda m=m: m(tensor)) for k, m in mains.items()}, options.rounds
            )
            what = f"hit, {count} shapes" if count else "miss"
            over = times["sited"] - times["plain"]
            print(f"{what}: {times['plain']:.0f} ns plain, {over:+.0f} ns", flush=True)
        sites.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
