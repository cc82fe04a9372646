"""Time op info, with certificates, for all PrimFuncs of a model, relative to `LegalizeOps`.

    python -m benchmarks.op_info [--models resnet50,bert] [--runs 3] [--out FILE]

Each run is a new process that first analyses another model, so that imports do not count and
nothing of this model is remembered. `cold` is the first analysis, `warm` the median of the next
ones, which reuse what the first one legalised (`legalised_cache`). Both are relative to the time of
`LegalizeOps` before and after it. `median` and `p95` are of single PrimFuncs, analysed once more;
`memory` is the growth of peak resident memory. Times are CPU times, figures medians over the runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.common.resources import cpu_seconds, peak, percentile, reset_peak, resident
from benchmarks.common.rows import STORED, run_worker, write

RESULTS = STORED / "op_info.json"
WARM_UP = "squeezenet"
REPEATS = 3


def measure(name: str) -> dict[str, Any]:
    """One run, in this process."""
    from tvm import relax, tirx

    import opinfo
    from tests import models

    legalize = relax.transform.LegalizeOps()
    opinfo.inspect(legalize(models.module(WARM_UP)))
    mod = models.module(name)
    before, lowered = cpu_seconds(lambda: legalize(mod))
    reset_peak()
    start, grown = resident(), 0
    ratios: list[float] = []
    for _ in range(1 + REPEATS):
        seconds, report = cpu_seconds(lambda: opinfo.inspect(lowered))
        grown = grown or peak() - start
        after, _ = cpu_seconds(lambda: legalize(mod))
        ratios.append(2 * seconds / (before + after))
        before = after
    prims = [f for f in lowered.functions.values() if isinstance(f, tirx.PrimFunc)]
    times = [cpu_seconds(lambda f=f: opinfo.analysis.op_info(f))[0] * 1e3 for f in prims]
    return {
        "prim_funcs": len(prims),
        "recovered": len(report.known),
        "legalize_s": after,
        "cold_ratio": ratios[0],
        "warm_ratio": statistics.median(ratios[1:]),
        "median_ms": statistics.median(times),
        "p95_ms": percentile(times, 0.95),
        "peak_growth_mib": grown / 2**20,
    }


def main() -> None:
    """Run, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", default="resnet50,bert")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker)))
        return
    results = {}
    print("model          PrimFuncs recovered legalise   cold   warm   median      p95  memory")
    for name in options.models.split(","):
        runs = [run_worker(__spec__.name, name) for _ in range(options.runs)]
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        results[name] = {"median": middle, "runs": runs}
        print(
            f"{name:14}{middle['prim_funcs']:10.0f}{middle['recovered']:10.0f}"
            f"{middle['legalize_s']:8.2f}s{middle['cold_ratio']:6.2f}x{middle['warm_ratio']:6.2f}x"
            f"{middle['median_ms']:6.2f} ms{middle['p95_ms']:6.2f} ms"
            f"{middle['peak_growth_mib']:4.0f} MiB"
        )
    write(options.out, results)


if __name__ == "__main__":
    main()
