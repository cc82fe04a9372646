"""Time kernels merged from static variants against the same kernel alone.

    python -m benchmarks.aot [--variants 8 32] [--rounds 41] [--json FILE]

Each row is a kernel with a symbolic dimension: merged from static variants for several values of it
and the generic body, called at each value, against the static variant alone. Both are called from
TVM's own timing loop in C++, in turns of a millisecond, in one thread; a ratio is the median over
the turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.resources import use_threads
from benchmarks.common.rows import write

Times = dict[str, list[float]]


@dataclass
class Row:
    """A kernel: nanoseconds of a call alone and merged, at the value with the worst ratio."""

    kernel: str
    variants: int
    value: int
    alone: float
    merged: float
    ratio: float
    median: float
    generic: float


VALUES = {8: (1, 4, 8, 12, 16, 24, 32, 48), 32: tuple(range(2, 66, 2)), 1: (16,)}


def kernels() -> dict[str, Any]:
    """Return small kernels with the dimension n."""
    from tvm import relax

    from tests.jit.legalised import kernel

    op, nn = relax.op, relax.op.nn
    return {
        "relu, n × 64": kernel(lambda x: nn.relu(x), [("n", 64)]),
        "add, n × 512": kernel(lambda x, b: op.add(x, b), [("n", 512), (512,)]),
        "softmax, n × 128": kernel(lambda x: nn.softmax(x, 1), [("n", 128)]),
        "matmul, n × 64 × 64": kernel(lambda x, w: op.matmul(x, w), [("n", 64), (64, 64)]),
    }


def measured(name: str, func: Any, values: Sequence[int], rounds: int) -> Row:
    """Measure a kernel; return its row."""
    from opinfo.byoc.dims.symbolic_dims import bind
    from opinfo.jit.aot.merge import Exact, merge

    statics = {v: bind(func, {"n": v}) for v in values}
    merged = _built(merge(func, [Exact(f, {"n": v}) for v, f in statics.items()]))
    generic = _built(func)
    measurements = []
    for extent in values:
        arguments = _arguments(statics[extent])
        single = _built(statics[extent])
        built = {"alone": single, "merged": merged, "generic": generic}
        calls = {k: _timed(m, arguments) for k, m in built.items()}
        measurements.append((extent, in_turns(calls, rounds)))
    ratios = [paired(t) for _, t in measurements]
    worst = max(range(len(measurements)), key=ratios.__getitem__)
    value, times = measurements[worst]
    middle = {k: statistics.median(t) * 1e9 for k, t in times.items()}
    return Row(
        name, len(values), value, middle["alone"], middle["merged"], ratios[worst],
        statistics.median(ratios), middle["generic"],
    )  # fmt: skip


def paired(times: Times) -> float:
    """Return the median ratio of consecutive turns, in which load that slows both cancels."""
    pairs = zip(times["merged"], times["alone"], strict=True)
    return statistics.median(m / a for m, a in pairs)


def _built(func: Any) -> Any:
    import tvm

    named = func.with_attr("global_symbol", "kernel")
    return tvm.tirx.build(tvm.IRModule({"kernel": named}), target="llvm")


def _arguments(func: Any) -> list[Any]:
    import numpy as np
    import tvm

    rng = np.random.default_rng(0)
    shapes = [[int(e) for e in p.ty.shape] for p in func.params]
    return [tvm.runtime.tensor(rng.standard_normal(s).astype("float32")) for s in shapes]


def _timed(module: Any, arguments: Sequence[Any]) -> Callable[[], float]:
    """Return a timer that averages over about a millisecond of calls, in seconds."""
    import tvm

    once = module.time_evaluator("kernel", tvm.cpu(), number=50)(*arguments).mean
    timer = module.time_evaluator("kernel", tvm.cpu(), number=max(10, int(1e-3 / once)))
    return lambda: float(timer(*arguments).mean)


def in_turns(calls: dict[str, Callable[[], float]], rounds: int) -> Times:
    """Return the times of each call, measured in turns so that noise affects all."""
    times: Times = {k: [] for k in calls}
    for turn in range(rounds):
        order = list(calls) if turn % 2 else list(reversed(calls))
        for k in order:
            times[k].append(calls[k]())
    return times


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variants", type=int, nargs="*", default=[8, 32], choices=sorted(VALUES))
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    use_threads(1)
    rows = []
    print("| kernel | variants | alone, ns | merged, ns | at worst | median | generic, ns |")
    print("|---|---|---|---|---|---|---|")
    for count in options.variants:
        for name, func in kernels().items():
            row = measured(name, func, VALUES[count], options.rounds)
            rows.append(asdict(row))
            worst = f"{row.ratio:.3f} at n = {row.value}"
            cells = (name, row.variants, f"{row.alone:.0f}", f"{row.merged:.0f}", worst,
                    f"{row.median:.3f}", f"{row.generic:.0f}")  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    if options.json:
        write(options.json, rows)


if __name__ == "__main__":
    main()
