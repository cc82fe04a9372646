"""Time what is left to TVM on a GPU: opinfo's schedules, TVM's own rules, and torch.

    python -m benchmarks.gpu_kernels [--only TEXT …] [--json FILE] [--build] [--set NAME=VALUE …]
    python -m benchmarks.gpu_kernels --page DEVICE --json FILE   # of an earlier run, on any machine

One line a kernel: microseconds of a call with opinfo's schedule, with TVM's rules and in eager
torch, all in CUDA graphs; the share of the device's bandwidth, counting each input and output once,
against a copy of 256 MiB measured in the same run; and the largest error relative to the largest
value of the same function in torch in float32. Kernels are built in parallel. Those of 16 MiB and
more rotate over copies of their inputs, so that these are not in the cache. `--build` builds only,
which needs no GPU. `--set window_kernel.ROWS=1` builds with another constant of the schedules,
and `--alone` leaves TVM's rules and torch out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .gpu_kernel_cases import KERNELS, MIB
from .gpu_kernels_page import write
from .kernel_builds import WAYS, build, set_constants
from .kernel_times import bandwidth, measure

#: Seconds after which only opinfo's kernels are timed, and after which none is.
BUDGET, LAST = 95, 125


def jobs(only: Sequence[str]) -> list[tuple[int, str]]:
    """The number and the type of each kernel to run: those whose name contains one of the texts."""
    every = [(k, t) for k, c in enumerate(KERNELS) for t in c.types]
    names = [f"{KERNELS[k].kind} {KERNELS[k].label} {t}" for k, t in every]
    return [job for job, name in zip(every, names, strict=True) if any(x in name for x in only)]


def line(row: dict[str, Any]) -> str:
    """A line of the table."""
    name = f"{row['name']} {'x'.join(map(str, row['shape']))}"
    cells = [f"{row[way]:10.1f}" if way in row else f"{'-':>10}" for way in (*WAYS, "torch")]
    share = f"{row['share']:6.0%}" if "share" in row else f"{'-':>6}"
    error = f"{row['opinfo_error']:9.1e}" if "opinfo_error" in row else f"{'-':>9}"
    notes = "; ".join(f"{w}: {row[f'{w}_note']}" for w in (*WAYS, "torch") if f"{w}_note" in row)
    return (f"{row['kind']:12}{name:40.40}{row['dtype']:9}{row['bytes'] / MIB:8.1f}"
            f"{''.join(cells)}{share}{error}  {notes}")  # fmt: skip


HEAD = (f"{'kind':12}{'kernel':40}{'type':9}{'MiB':>8}{'opinfo us':>10}{'TVM us':>10}"
        f"{'torch us':>10}{'share':>6}{'error':>9}")  # fmt: skip


def report(folder: Path, first: int) -> int:
    """Time kernels from the one with this number on, and print the table.

    A failure costs its line only. After one that leaves the device unusable, the process ends with
    status 10; a new one can go on after the kernels that are noted in the folder.
    """
    import torch

    builds = json.loads((folder / "builds.json").read_text())
    started, limit = time.perf_counter(), bandwidth(torch)
    print(f"{torch.cuda.get_device_name()}, copy {limit / 1e9:.0f} GB/s\n{HEAD}", flush=True)
    for k, built in list(enumerate(builds))[first:]:
        (folder / "next").write_text(str(k + 1))
        kernel = KERNELS[built["job"][0]]
        label = f"{kernel.kind} {kernel.label} {built['job'][1]}"
        spent = time.perf_counter() - started
        if spent > LAST:
            print(f"{label}: not timed, out of time", flush=True)
            continue
        try:
            if "error" in built:
                raise RuntimeError(built["error"])
            row = measure(torch, built, limit, spent > BUDGET)
            print(line(row), flush=True)
            (folder / f"row_{k}.json").write_text(json.dumps(row))
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{label}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        try:
            torch.cuda.synchronize()
        except Exception:  # the device is lost for this process
            return 10
    print(f"timed in {time.perf_counter() - started:.0f} s", flush=True)
    return 0


def timed_apart(folder: Path) -> list[dict[str, Any]]:
    """The rows of all kernels, timed in a process that is replaced if it loses the device."""
    at = folder / "next"
    at.write_text("0")
    for _ in range(6):
        words = [sys.executable, "-m", "benchmarks.gpu_kernels", "--timed", str(folder),
                 "--first", at.read_text()]  # fmt: skip
        if subprocess.run(words).returncode != 10:
            break
    return [json.loads(p.read_text()) for p in sorted(folder.glob("row_*.json"))]


def main() -> int:
    about = __doc__.splitlines()[0] if __doc__ else None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_kernels", description=about)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of kind, name and type")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE",
                        help="constants of the schedules")  # fmt: skip
    parser.add_argument("--alone", action="store_true", help="opinfo only")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--build", action="store_true", help="only build; needs no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timed", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--page", metavar="DEVICE", help="write the page of the rows in --json")
    options = parser.parse_args()
    if options.page:
        print(f"written: {write(json.loads(Path(options.json).read_text()), options.page)}")
        return 0
    if options.timed:
        return report(options.timed, options.first)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context, first = get_context("spawn"), (options.set,)
        with ProcessPoolExecutor(options.jobs, context, set_constants, first) as pool:
            work = partial(build, folder=name, arch=options.arch, alone=options.alone)
            builds = list(pool.map(work, jobs(options.only)))
        print(f"built in {time.perf_counter() - started:.0f} s", flush=True)
        if options.build:
            for built in builds:
                print(_built(built), flush=True)
            return 0
        (folder / "builds.json").write_text(json.dumps(builds))
        rows = timed_apart(folder)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _built(built: dict[str, Any]) -> str:
    """The line of a kernel that was only built."""
    kernel = KERNELS[built["job"][0]]
    bad = {k: v for k, v in built.items() if k in (*WAYS, "error") and not v.endswith(".so")}
    count = len(built.get("opinfo_params", []))
    return f"{kernel.kind} {kernel.label} {built['job'][1]}: {bad or f'built, kernels: {count}'}"


if __name__ == "__main__":
    raise SystemExit(main())
