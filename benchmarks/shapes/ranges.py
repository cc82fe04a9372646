"""Time schedules for a range of a dimension against those for all sizes and for one size.

    python -m benchmarks.ranges [KERNEL ...]

The kernels of `benchmarks.schedules`, n symbolic. `symbolic` is the schedule for all n, `ranged`
the one for the n in a range (and the multiples of a number), `static` the one at n. One thread;
medians of rounds in which all take turns, in microseconds of CPU.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks.common.resources import use_threads
from benchmarks.shapes.schedules import Case, cases, timed

#: Low, high, multiple, and the values that are measured.
RANGES = (
    (1, 4, 1, (1, 2, 3, 4)),
    (1, 16, 1, (1, 5, 16)),
    (17, 128, 1, (17, 33, 64, 100)),
    (8, 512, 8, (8, 40, 64, 200)),
    (16, 512, 16, (16, 48, 64, 208)),
    (64, 512, 64, (64, 192)),
)
HEAD = "| kernel | n in | n | symbolic | ranged | static | symbolic / ranged | ranged / static |"


def rows(name: str, case: Case) -> list[tuple[str, float]]:
    """Return the time of the symbolic schedule over that of the ranged one, by range."""
    import tvm

    from opinfo.byoc.dims.span import Span
    from opinfo.byoc.schedule import Scheduled, schedule
    from tests.byoc.schedule.fused import TARGET, at, built, fused_one, inputs, scheduled

    func = fused_one(case.shapes, case.expr)
    symbolic = built(scheduled(func).func)
    out = []
    for low, high, multiple, sizes in RANGES:
        result = schedule(func, TARGET, {"n": Span(low, high, multiple)})
        assert isinstance(result, Scheduled), result
        ranged = built(result.func)
        label = f"{low}…{high}" + (f" by {multiple}" if multiple > 1 else "")
        for n in sizes:
            tensors = [tvm.runtime.tensor(a) for a in inputs(func, {"n": n})]
            kernels = {"symbolic": symbolic, "ranged": ranged,
                       "static": built(scheduled(at(func, {"n": n})).func)}  # fmt: skip
            seconds = timed({k: lambda f=f, t=tensors: f(*t) for k, f in kernels.items()})
            symbolic_us, ranged_us, static_us = (1e6 * seconds[k] for k in kernels)
            out.append((label, symbolic_us / ranged_us))
            print(f"| {name} | {label} | {n} | {symbolic_us:.1f} | {ranged_us:.1f} "
                  f"| {static_us:.1f} | {symbolic_us / ranged_us:.2f} "
                  f"| {ranged_us / static_us:.2f} |", flush=True)  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.ranges",
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("kernel", nargs="*")
    options = parser.parse_args()
    use_threads(1)
    kernels: dict[str, Any] = {k: c for k, c in cases().items() if "n" in str(c.shapes)}
    print(HEAD, "|---|---|---:|---:|---:|---:|---:|---:|", sep="\n")
    chosen = options.kernel or [k for k in kernels if "conv" not in k and "depthwise" not in k]
    ratios = [r for name in chosen for r in rows(name, kernels[name])]
    for label in dict.fromkeys(label for label, _ in ratios):
        mean = statistics.geometric_mean(v for k, v in ratios if k == label)
        print(f"n in {label}: symbolic / ranged {mean:.2f} (geometric mean)")


if __name__ == "__main__":
    main()
