"""Measure how time and memory of an analysis grow with the number of PrimFuncs.

    python -m benchmarks.growth [--sizes 100,1000,5000] [--out FILE]

Each row is a module of distinct PrimFuncs of ten operators, analysed in a new process after a
warm-up. Growth is linear if the figures for one PrimFunc do not depend on the number of PrimFuncs:
`ms` is CPU time, `kept` the resident memory that the report adds per PrimFunc, `terms` the number
of interned terms left in the whole process after the report is gone. `last / first` is the time of
the last tenth of the PrimFuncs divided by that of the first tenth.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.resources import cpu_seconds, peak, reset_peak, resident
from benchmarks.common.rows import STORED, run_worker, write

RESULTS = STORED / "growth.json"
WARM_UP = 50


def modules(count: int) -> list[Any]:
    """Return distinct PrimFuncs that cycle through ten operators."""
    from opinfo.analysis.proposal.legalise import legalise

    prim_funcs = []
    for k in range(count):
        call, params = _call(k % 10, 8 + k // 10)
        lowered = legalise(call, params)
        assert lowered is not None
        prim_funcs.append(lowered.func)
    return prim_funcs


def _call(kind: int, n: int) -> tuple[Any, list[Any]]:
    """A call of one of ten operators, with an extent of n."""
    from tvm import relax

    def tensors(*shapes: tuple[int, ...]) -> list[Any]:
        return [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]

    op: Any = relax.op
    shapes, make = (
        (((1, 8, n, n), (16, 8, 3, 3)), lambda x, w: op.nn.conv2d(x, w, padding=1)),
        (((4, n), (n, 32)), op.matmul),
        (((2, n, 16), (n, 1)), op.add),
        (((4, n),), op.nn.relu),
        (((2, 3, n),), lambda x: op.nn.softmax(x, axis=-1)),
        (((2, n, 8),), lambda x: op.permute_dims(x, (1, 0, 2))),
        (((n, 4, 2),), lambda x: op.reshape(x, (n, 8))),
        (((4, n, 4),), lambda x: op.sum(x, axis=[1])),
        (((1, 4, n, n),), lambda x: op.nn.max_pool2d(x, (2, 2), (2, 2))),
        (((n, 4), (n, 4)), lambda x, y: op.concat([x, y], axis=1)),
    )[kind]
    params = tensors(*shapes)
    return make(*params), params


def measure(count: int) -> dict[str, Any]:
    """Measure a module with this many PrimFuncs, in this process."""
    import tvm

    import opinfo
    from opinfo.analysis.terms.term import interning

    funcs = modules(count)
    opinfo.inspect(tvm.IRModule({f"f{k}": f for k, f in enumerate(islice(funcs, WARM_UP))}))
    mod = tvm.IRModule({f"f{k:05}": f for k, f in enumerate(funcs)})
    gc.collect()
    terms, start = len(interning.TABLE), resident()
    reset_peak()
    marks: list[float] = []
    seconds, report = cpu_seconds(
        lambda: opinfo.inspect(mod, lambda *_: marks.append(time.process_time()))
    )
    highest, tenth = peak(), max(count // 10, 1)
    gc.collect()
    kept, recovered = resident() - start, len(report.known)
    del report
    gc.collect()
    return {
        "prim_funcs": count,
        "recovered": recovered,
        "ms": seconds * 1e3 / count,
        "last_over_first": (marks[-1] - marks[-1 - tenth]) / (marks[tenth] - marks[0]),
        "peak_growth_mib": (highest - start) / 2**20,
        "kept_kib": kept / 2**10 / count,
        "terms_left": len(interning.TABLE) - terms,
    }


def main() -> None:
    """Run, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100,1000,5000")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", type=int, metavar="COUNT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker)))
        return
    rows = []
    print("PrimFuncs recovered  ms each  last / first  peak growth  kept each  terms left")
    for size in options.sizes.split(","):
        row = run_worker(__spec__.name, size)
        rows.append(row)
        print(
            f"{row['prim_funcs']:9}{row['recovered']:10}{row['ms']:9.2f}"
            f"{row['last_over_first']:14.2f}{row['peak_growth_mib']:9.0f} MiB"
            f"{row['kept_kib']:7.1f} KiB{row['terms_left']:12}"
        )
    write(options.out, rows)


if __name__ == "__main__":
    main()
