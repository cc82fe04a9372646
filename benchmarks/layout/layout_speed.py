"""Time planned against unplanned modules, both compiled by TVM's default pipeline.

    python -m benchmarks.layout_speed [--model NAME] [--size N] [--want tvm-nhwc] [--rounds N]
                                      [--mcpu NAME] [--profile] [--json FILE] [--page [FILE]]

Each model is compiled twice for a target, unplanned and planned with the implementation `tvm-nhwc`;
no library is called. Targets are this machine's CPU and `generic`, the minimum of every x86-64
(SSE2), or those of `--mcpu`. The two run in turn, in one thread. Prints the median CPU seconds of a
run, and the difference of the outputs. `--profile` also prints the slowest functions. Exits with 1
if a ratio is above the goal or outputs differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import tvm
from tvm import relax
from tvm.target.codegen import llvm_get_system_cpu

from benchmarks.common import nets
from benchmarks.common.pages import add_page_option, table
from benchmarks.common.resources import cpu_seconds
from benchmarks.common.rows import write
from opinfo.layout.plan import plan_layout

MODELS = ("resnet18", "resnet50", "mobilenet_v2")
WANT = "tvm-nhwc"
GOAL = 0.15
TOLERANCE = 1e-4

HEAD = """# Run time of planned modules

Written by `python -m benchmarks.layout_speed --page`.

CPU seconds of one run on the default CPU build of TVM (`tvm.compile(mod, target)`, no library), in
one thread, the median of {rounds} in turn: **given**: as legalised; **planned**: by
`plan_layout(mod, "tvm-nhwc")` before it is compiled. The target is `llvm` with this **mcpu**;
`generic` is TVM's default, SSE2 on x86-64. **differ** is the largest
difference of the outputs, relative to the largest output. The goal is a ratio of at most 0.15.
"""


@dataclass(frozen=True)
class Row:
    """A model's seconds, and the conversions in its plan."""

    model: str
    mcpu: str
    input: str
    given: float
    planned: float
    conversions: int
    differ: float
    planning: float

    @property
    def ratio(self) -> float:
        return self.planned / self.given


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_speed", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=(*nets.NAMES, *nets.MORE))
    parser.add_argument("--size", type=int, default=224, help="height and width of the image")
    parser.add_argument("--want", default=WANT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mcpu", action="append", help="CPUs to compile for, as LLVM names them")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", metavar="FILE", type=Path)
    add_page_option(parser, "layout-speed.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model or MODELS:
        subject = PlannedModel.of(name, options.size, options.want)
        for mcpu in options.mcpu or (llvm_get_system_cpu(), "generic"):
            rows.append(measured(subject, mcpu, options.rounds, options.profile))
            print(as_line(rows[-1]), flush=True)
    if options.json:
        write(options.json, [asdict(r) | {"ratio": r.ratio} for r in rows])
    if options.page:
        options.page.write_text(page(rows, options.rounds), encoding="utf-8")
    return 0 if all(r.ratio <= GOAL and r.differ <= TOLERANCE for r in rows) else 1


@dataclass(frozen=True)
class PlannedModel:
    """A model and its plan, which took ``seconds``."""

    name: str
    size: int
    mod: Any
    planned: Any
    seconds: float

    @staticmethod
    def of(name: str, size: int, implementation: str) -> PlannedModel:
        mod = relax.transform.LegalizeOps()(nets.module(name, size))
        seconds, planned = cpu_seconds(lambda: plan_layout(mod, implementation))
        return PlannedModel(name, size, mod, planned, seconds)


def measured(subject: PlannedModel, mcpu: str, rounds: int, profile: bool = False) -> Row:
    """Compile and run a model."""
    size = subject.size
    values = [tvm.runtime.tensor(v) for v in nets.inputs(subject.name, size=size)]
    original, planned = machine(subject.mod, mcpu), machine(subject.planned.module, mcpu)
    differ = difference(outputs(original, values), outputs(planned, values))
    if profile:
        for each in (original, planned):
            print(profiled(each, values))
    first, second = in_turn([original, planned], values, rounds)
    conversions = subject.planned.report.after.number
    shape = f"float32[1, 3, {size}, {size}]"
    return Row(subject.name, mcpu, shape, first, second, conversions, differ, subject.seconds)


def machine(mod: Any, mcpu: str) -> Any:
    """Compile a module with TVM's default pipeline."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu})
    return relax.VirtualMachine(tvm.compile(mod, target=target), tvm.cpu())


def in_turn(machines: Sequence[Any], values: Sequence[Any], rounds: int) -> list[float]:
    """Return the median seconds of a run of each machine."""
    seconds: list[list[float]] = [[] for _ in machines]
    for _ in range(rounds):
        for m, times in zip(machines, seconds, strict=True):
            times.append(cpu_seconds(lambda m=m: m["main"](*values))[0])
    return [statistics.median(s) for s in seconds]


def outputs(machine: Any, values: Sequence[Any]) -> list[Any]:
    result = machine["main"](*values)
    parts = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [part.numpy().astype("float64") for part in parts]


def difference(expected: Sequence[Any], actual: Sequence[Any]) -> float:
    """Return the largest difference, relative to the largest output."""
    if not all(
        np.isfinite(a).all() and a.shape == b.shape for a, b in zip(expected, actual, strict=True)
    ):
        return float("inf")
    return max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
               for a, b in zip(expected, actual, strict=True))  # fmt: skip


def profiled(machine: Any, values: Sequence[Any], most: int = 12) -> str:
    """List the slowest functions of a run, with the shapes of their arguments."""
    spent: defaultdict[str, float] = defaultdict(float)
    start = 0.0

    def instrument(_: Any, name: str, before: bool, __: Any, *args: Any) -> None:
        nonlocal start
        shapes = " ".join(str(tuple(a.shape)) for a in args if hasattr(a, "shape"))
        if before:
            start = time.process_time()
        else:
            spent[f"{name} {shapes}"] += time.process_time() - start

    machine.set_instrument(instrument)
    machine["main"](*values)
    machine.set_instrument(lambda *_: None)
    every = sum(spent.values())
    top = sorted(spent.items(), key=lambda kv: -kv[1])[:most]
    lines = [f"{s * 1e3:9.2f} ms {s / every:6.1%}  {n}" for n, s in top]
    return "\n".join([*lines, f"{every * 1e3:9.2f} ms in all"])


def as_line(row: Row) -> str:
    """Format a row as one line."""
    return (f"{row.model} {row.input} {row.mcpu}: {row.given:.3f} s as given, "
            f"{row.planned:.3f} s planned, ratio {row.ratio:.3f}, "
            f"{row.conversions} conversions, outputs differ by "
            f"{row.differ:.1e}, planned in {row.planning:.1f} s")  # fmt: skip


def page(rows: Sequence[Row], rounds: int) -> str:
    head = (
        "model",
        "input",
        "mcpu",
        "given, s",
        "planned, s",
        "ratio",
        "conversions left",
        "differ",
    )
    lines = [(r.model, f"`{r.input}`", r.mcpu, f"{r.given:.3f}", f"{r.planned:.3f}",
              f"{r.ratio:.3f}", str(r.conversions), f"{r.differ:.1e}") for r in rows]  # fmt: skip
    return f"{HEAD.format(rounds=rounds)}\n{table(head, lines)}\n"


if __name__ == "__main__":
    sys.exit(main())
