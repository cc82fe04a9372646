"""Measure time and memory of layout planning on ResNet-50 and on graphs of growing size.

    python -m benchmarks.layout_growth [--sizes 500,2000,5000] [--nets residual,shuffle,...]
                                       [--kinds equal,distinct,symbolic] [--out FILE]
                                       [--page [FILE]]

Times are CPU seconds; each row comes from its own process. ResNet-50 is also converted by TVM's
`ConvertLayout` and `LegalizeOps`, in turn with `plan_layout` in the same process; the ratio is of
the medians. `first` is the time of the first plan of the process, without cached analyses.

The graphs are made of residual blocks of convolutions, of channel shuffles between convolutions, or
of transformer blocks; a ladder is a single part of the problem without fixed values. In an `equal`
graph all blocks have the same shape, so that few PrimFuncs are called many times; in a `distinct`
one each block has its own width, and thus its own PrimFuncs; in a `symbolic` one the batch is a
variable. `--page` also writes the page, including the rows stored before this run.
"""

from __future__ import annotations

import argparse
import json
import operator
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import cpu_seconds, peak, reset_peak, resident
from benchmarks.common.rows import STORED, run_worker, write
from benchmarks.layout.growing_nets import KINDS, NETS, lowered
from benchmarks.layout.layout_growth_page import page

RESULTS = STORED / "layout_growth.json"
MODELS = ("torch", "light")
WANTED = {"nn.conv2d": ["NHWC", "OHWI"]}
#: The timed functions: the module that calls each, the object that holds it, and its name.
PHASES = (
    ("planner", "", "graph"),
    ("plan", "OpSpecs", "of"),
    ("planner", "", "decide"),
    ("search.function_plan", "", "candidates"),
    ("search.function_plan", "", "_allowed"),
    ("search.function_plan", "", "problem"),
    ("search.function_plan", "", "solve"),
    ("planner", "Planner", "refused"),
    ("plan", "", "materialise"),
    ("plan", "", "report"),
)
NAMES = {"of": "kinds", "_allowed": "choices", "refused": "rewrite + proof"}


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Yield the CPU seconds by phase of the plans made in the context."""
    import importlib

    spent: dict[str, float] = {}
    before = []
    for module, holder, name in PHASES:
        owner: Any = importlib.import_module(f"opinfo.layout.{module}")
        owner = getattr(owner, holder) if holder else owner
        original = getattr(owner, name)
        before.append((owner, name, original))

        def wrapped(*args: Any, original: Any = original, name: str = name, **options: Any) -> Any:
            seconds, result = cpu_seconds(lambda: original(*args, **options))
            phase = NAMES.get(name, name)
            spent[phase] = spent.get(phase, 0.0) + seconds
            return result

        setattr(owner, name, wrapped)
    try:
        yield spent
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def planned(mod: Any) -> dict[str, Any]:
    """Plan a legalised module; return times by phase, the solver's status, and memory."""
    from tvm import tirx

    from opinfo.layout.plan import plan_layout

    start = resident()
    reset_peak()
    began = time.perf_counter()
    with timed() as phases:
        seconds, plan = cpu_seconds(lambda: plan_layout(mod, WANTED))
    wall = time.perf_counter() - began
    report = plan.report
    return {
        "ops": len(report.ops),
        "prim_funcs": sum(isinstance(f, tirx.PrimFunc) for f in mod.functions.values()),
        "seconds": seconds,
        "wall": wall,
        "phases": phases,
        "status": report.status,
        "gap": report.objective - report.bound,
        "conversions": len(report.conversions),
        "peak_mib": peak() / 2**20,
        "peak_growth_mib": (peak() - start) / 2**20,
    }


def growing(name: str, ops: int, kind: str) -> dict[str, Any]:
    """Plan a small graph first, then measure the plan of a graph of this size."""
    from opinfo.layout.plan import plan_layout

    plan_layout(lowered(name, 20, "equal"), WANTED)
    return {"net": name, "kind": kind, **planned(lowered(name, ops, kind))}


def resnet50(source: str, runs: int) -> dict[str, Any]:
    """Measure the plan of ResNet-50 against ConvertLayout and LegalizeOps."""
    from tvm import relax

    from opinfo.layout.plan import plan_layout

    mod = _resnet50(source)
    low = relax.transform.LegalizeOps()(mod)
    first = planned(low)
    desired = {f"relax.{op}": layouts for op, layouts in WANTED.items()}

    def native() -> Any:
        return relax.transform.LegalizeOps()(relax.transform.ConvertLayout(desired)(mod))

    ours, theirs, why = [], [], ""
    for _ in range(runs):
        ours.append(cpu_seconds(lambda: plan_layout(low, WANTED))[0])
        try:
            theirs.append(cpu_seconds(native)[0])
        except Exception as error:  # TVM may raise anything
            why = type(error).__name__
    tvm_median = statistics.median(theirs) if theirs else None
    median = statistics.median(ours)
    return {
        **first,
        "net": f"resnet50 ({source})",
        "kind": "model",
        "again": median,
        "tvm": tvm_median if tvm_median is not None else f"raises {why}",
        "ratio": None if tvm_median is None else median / tvm_median,
        "ratio_first": None if tvm_median is None else first["seconds"] / tvm_median,
    }


def _resnet50(source: str) -> Any:
    if source == "torch":
        from benchmarks.common import nets

        return nets.module("resnet50")
    from tests.models import module

    return module("resnet50")


# ---------------------------------------------------------------------------- the command


def show(row: dict[str, Any]) -> None:
    """Print a row, and a line with its phases."""
    print(f"{row['net']:18}{row['kind']:9}{row['ops']:6}{row['prim_funcs']:10}"
          f"{row['seconds']:9.2f}{row['seconds'] * 1e3 / row['ops']:8.2f}"
          f"  {row['status']}, gap {row['gap']:g}{row['peak_growth_mib']:9.0f} MiB")  # fmt: skip
    print("    " + ", ".join(f"{k} {v:.2f}" for k, v in row["phases"].items()), flush=True)
    if "tvm" in row:
        if row["ratio"] is None:
            print(f"    again {row['again']:.2f}; ConvertLayout {row['tvm']}")
        else:
            print(f"    again {row['again']:.2f}; ConvertLayout + LegalizeOps {row['tvm']:.2f}: "
                  f"{row['ratio']:.2f} times, the first {row['ratio_first']:.2f}")  # fmt: skip


def main() -> None:
    """Run, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="500,2000,5000")
    parser.add_argument("--nets", default=",".join(("resnet50", *NETS)))
    parser.add_argument("--kinds", default="equal,distinct,symbolic")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    add_page_option(parser, "layout-growth.md")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, size, kind = options.worker
        model = name == "resnet50"
        print(json.dumps(resnet50(kind, int(size)) if model else growing(name, int(size), kind)))
        return
    rows = []
    print("net               kind        ops PrimFuncs  seconds  ms/op  solver, memory")
    for name in options.nets.split(","):
        sizes = options.sizes.split(",") if name in NETS else [str(options.runs)]
        chosen = options.kinds.split(",")
        for kind in [k for k in KINDS[name] if k in chosen] if name in NETS else MODELS:
            for size in sizes:
                row = run_worker(__spec__.name, name, size, kind)
                rows.append(row)
                show(row)
    if options.page:
        old = json.loads(options.out.read_text()) if options.out.exists() else []
        rows = merged(old, rows)
        options.page.write_text(page(rows), encoding="utf-8")
        print(f"written: {options.page}")
    write(options.out, rows)


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace old rows by new ones of the same graph, keeping the order."""
    key = operator.itemgetter("net", "kind", "ops")
    rows = {key(r): r for r in old} | {key(r): r for r in new}
    return list(rows.values())


if __name__ == "__main__":
    main()
