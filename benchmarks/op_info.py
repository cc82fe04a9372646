"""Time of op info with certificates for all PrimFuncs of a model, against `LegalizeOps` on it.

    python -m benchmarks.op_info [--models resnet50,bert] [--runs 3] [--out FILE]

Each run is a process of its own that first analyses another model, so that imports are not counted
and nothing of this model is remembered. `cold` is the first analysis, `warm` the next one. Ratios
are medians over the runs; times on a busy machine are not worth much, ratios are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "op_info.json"
WARM_UP = "squeezenet"


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(name: str) -> dict[str, Any]:
    """One run, in this process: seconds for legalising and for analysing `name`."""
    from tvm import relax, tirx

    import opinfo
    from tests import models

    legalize = relax.transform.LegalizeOps()
    opinfo.inspect(legalize(models.module(WARM_UP)))
    mod = models.module(name)
    first, lowered = _seconds(lambda: legalize(mod))
    again, _ = _seconds(lambda: legalize(mod))
    cold, report = _seconds(lambda: opinfo.inspect(lowered))
    warm, _ = _seconds(lambda: opinfo.inspect(lowered))
    legal = min(first, again)
    return {
        "prim_funcs": sum(isinstance(f, tirx.PrimFunc) for f in lowered.functions.values()),
        "recovered": len(report.known),
        "legalize_s": legal,
        "cold_s": cold,
        "warm_s": warm,
        "cold_ratio": cold / legal,
        "warm_ratio": warm / legal,
    }


def _run(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.op_info", "--worker", name]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


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
    print(f"{'model':14}{'PrimFuncs':>10}{'recovered':>10}{'legalise':>10}{'cold':>9}{'warm':>9}")
    for name in options.models.split(","):
        runs = [_run(name) for _ in range(options.runs)]
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        results[name] = {"median": middle, "runs": runs}
        print(
            f"{name:14}{middle['prim_funcs']:10.0f}{middle['recovered']:10.0f}"
            f"{middle['legalize_s']:9.2f}s{middle['cold_ratio']:8.2f}x{middle['warm_ratio']:8.2f}x"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
