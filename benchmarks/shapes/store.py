"""Time loading kernels from disk, verified, against loading the bare library.

    python -m benchmarks.store [--kernels 40] [--runs 15] [--out FILE]

The kernels are matrix products of different shapes. Each time is the median over kernels of the
smallest wall time of a kernel, in turns; `load` verifies and copies, so that its ratio to `bare` is
what safety costs.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common.resources import percentile, use_threads
from benchmarks.common.rows import STORED, write

RESULTS = STORED / "store.json"


def libraries(folder: Path, count: int) -> list[Path]:
    """Build kernels; return their libraries."""
    import tvm

    from tests.jit.kernels import product

    out = []
    for n in range(1, count + 1):
        path = folder / f"built{n}.so"
        tvm.tirx.build(product(n), target="llvm").export_library(str(path))
        out.append(path)
    return out


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    if work() is None:
        raise RuntimeError("nothing was loaded")
    return (time.perf_counter() - start) * 1e3


def copied(store: Any, key: str, to: Path) -> Path:
    """Copy a kernel from the store, as a session does."""
    if not store.copy(key, to):
        raise RuntimeError("nothing was stored")
    return to


def measure(count: int, runs: int) -> dict[str, Any]:
    """Measure on new files in each run, since a process loads the same library only once."""
    from tvm_ffi import load_module

    from opinfo.jit.kernels.build_kernel import loaded
    from opinfo.jit.store.store import KernelStore

    best: dict[str, list[float]] = {}
    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = libraries(folder, count)
        for run in range(runs):
            store = KernelStore(folder / f"run{run}")
            for n, path in enumerate(built):
                bare, key = folder / f"bare{run}-{n}.so", f"{n:040x}"
                copy = folder / f"copy{run}-{n}.so"
                shutil.copy(path, bare)
                durations = {
                    "put": milliseconds(lambda: store.put(key, path)),  # noqa: B023
                    "get": milliseconds(lambda: store.get(key)),  # noqa: B023
                    "load": milliseconds(lambda: loaded(copied(store, key, copy))),  # noqa: B023
                    "bare": milliseconds(lambda: load_module(str(bare))),  # noqa: B023
                }
                for what, duration in durations.items():
                    times = best.setdefault(what, [float("inf")] * count)
                    times[n] = min(times[n], duration)
            sizes = [r.size for r in store.ls()]
    medians: dict[str, Any] = {what: median(times) for what, times in best.items()}
    return {**medians, "load p95": percentile(best["load"], 0.95), "bytes": median(sizes),
            "ratio": medians["load"] / medians["bare"], "kernels": count, "runs": runs}  # fmt: skip


def main() -> None:
    """Run, print, write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--kernels", type=int, default=40)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    use_threads(1)
    results = measure(options.kernels, options.runs)
    print(f"{results['kernels']} kernels of {results['bytes']:,.0f} bytes: "
          f"put {results['put']:.3f} ms, get (verified) {results['get']:.3f} ms, "
          f"load (verified) {results['load']:.3f} ms "
          f"(95%: {results['load p95']:.3f} ms), bare load_module {results['bare']:.3f} ms: "
          f"{results['ratio']:.2f} ×")  # fmt: skip
    write(options.out, results)


if __name__ == "__main__":
    main()
