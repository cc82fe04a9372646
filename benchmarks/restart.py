"""A served model is started again: how many of its kernels come from disk, and in what time.

    python -m benchmarks.restart [--shapes 24] [--out FILE]

A model with a symbolic batch is asked at so many sizes and closed when all kernels are compiled; a
process of its own then serves the same sizes from the same folder. Milliseconds are of a kernel,
from the shape being seen to its kernel being in place, verifying and loading included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from .measure import fresh, percentile, use_threads, write

RESULTS = Path(__file__).parent / "results" / "restart.json"


def serve(library: Path, folder: Path, shapes: int) -> dict[str, Any]:
    """Ask for every size until it has its kernel."""
    from opinfo.jit import KernelStore, Session
    from tests.jit import modules

    with Session(library, store=KernelStore(folder)) as session:
        for n in range(1, shapes + 1):
            for _ in range(3):
                session(modules.rows(n))
        if not session.settle(600):
            raise RuntimeError("kernels are not compiled after ten minutes")
        told = session.stats()
    by: dict[str, list[float]] = {}
    for e in told.events:
        by.setdefault(e.what, []).append(e.milliseconds)
    return by


def measure(shapes: int) -> dict[str, Any]:
    from opinfo.jit import compile_shapes
    from tests.jit import modules

    with tempfile.TemporaryDirectory() as name:
        library, folder = Path(name) / "model.so", Path(name) / "kernels"
        compile_shapes(modules.dense(), "jit").export(library)
        first = serve(library, folder, shapes)["compiled"]
        again = fresh("benchmarks.restart", str(library), str(folder), str(shapes))
    loaded = again.get("loaded", [])
    total = sum(map(len, again.values()))
    return {"kernels": total, "from disk": len(loaded) / total, "compiled ms": median(first),
            "loaded ms": median(loaded), "loaded ms p95": percentile(loaded, 0.95)}  # fmt: skip


def main() -> None:
    """Run, print, write JSON."""
    use_threads(1)
    if sys.argv[1:2] == ["--worker"]:
        import json

        library, folder, shapes = sys.argv[2:]
        print(json.dumps(serve(Path(library), Path(folder), int(shapes))))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measure(options.shapes)
    print(f"{found['kernels']} kernels, {found['from disk']:.0%} of them from disk: "
          f"{found['loaded ms']:.2f} ms each (95%: {found['loaded ms p95']:.2f} ms), compiled in "
          f"{found['compiled ms']:.0f} ms")  # fmt: skip
    write(options.out, found)


if __name__ == "__main__":
    main()
