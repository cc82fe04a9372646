"""Compile whole models for an NVIDIA GPU and time them against `torch.compile` and TVM's default.

    python -m benchmarks.gpu build DIR [--set SET] [--only NAME ...] [--dtype DTYPE ...]
                              [--jobs 8] [--default]
    python -m benchmarks.gpu time DIR [--set SET] [--only NAME ...] [--dtype DTYPE ...] [--jobs 1]
                             [--mode MODE ...]
    python -m benchmarks.gpu page DIR [--idle]
    python -m benchmarks.gpu compile_time DIR [--only NAME ...] [--dtype DTYPE ...] [--page]

DTYPE is float16 (if nothing is said), bfloat16 or float32, which is without tf32. `build` compiles
each model in its own process, several at a time; with `--default` also by TVM alone. `time` calls
all builds and torch in turns in one process a model, with CUDA graphs on all sides, compares
outputs with torch in float32, and profiles kernels. MODE is one of torch.compile. With several
jobs, as many models compile at once, and one is timed at a time, the candidates of max-autotune
included. torch keeps their times in DIR, so a run that was stopped goes on. SET is first (if
nothing is said), or later, last or newest, which were chosen to report on. Rows are kept in DIR, a
file each; those of several runs are joined. `page` writes docs/results/gpu.md
from them; with `--idle`, they are of a run without peers on an idle host. `compile_time` compiles
each model alone, with an empty cache and then with the one that is left, and with `--page` writes
docs/results/gpu-compile.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.step_parser import step_parser

from .architectures import MODES, SETS
from .compiling.compile_time import compile_times
from .page import write

DTYPES = ("float16", "bfloat16", "float32")
#: Seconds after which a model's process is ended.
LIMIT = 1200


def names(only: Sequence[str] | None, of: str = "first") -> list[str]:
    """Return ``NET-bN`` for each net and batch size, or those that start with one of ``only``."""
    every = [f"{net}-b{batch}" for net, spec in SETS[of].items() for batch in spec.batches]
    return [n for n in every if not only or any(n.startswith(o) for o in only)]


def main() -> None:
    """Run one step."""
    options = _options()
    if options.step == "page":
        print(f"written: {write(options.folder, options.idle)}")
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.step == "compile_time":
        todo = names(options.only, options.set)
        sys.exit(compile_times(options.folder, todo, options.dtype, options.page))
    more = ",".join(options.mode) if options.step == "time" else str(options.default)
    chosen = names(options.only, options.set)
    jobs = [[name, dtype, more] for dtype in options.dtype for name in chosen]
    sys.exit(_run(options.step, options.folder, jobs, options.jobs))


def _run(step: str, folder: Path, waiting: list[list[str]], jobs: int) -> bool:
    """Run a process for each model; return whether one failed."""
    live: list[tuple[str, float, subprocess.Popen[bytes]]] = []
    failed = False
    while waiting or live:
        while waiting and len(live) < jobs:
            group, waiting = waiting[: jobs - len(live)], waiting[jobs - len(live) :]
            live += [(" ".join(job[:2]), time.monotonic(), _started(step, folder, job))
                     for job in group]  # fmt: skip
        time.sleep(0.2)
        for job in list(live):
            name, begun, process = job
            if process.poll() is None and time.monotonic() - begun < LIMIT:
                continue
            if process.poll() is None:
                process.kill()
                print(f"{name}: ended after {LIMIT} s", flush=True)
            failed |= process.wait() != 0
            live.remove(job)
    return failed


def _started(step: str, folder: Path, job: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"benchmarks.gpu.{step}_model", str(folder), *job]
    return subprocess.Popen(command, env=environment(folder, job))


def environment(folder: Path, job: Sequence[str]) -> dict[str, str]:
    """Return the environment of a model's process, with its own folder for what torch keeps.

    Times of candidates are in one file of that folder, from which processes that share it drop
    each other's.
    """
    kept = folder / "torch" / "-".join(job[:2])
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(kept.resolve())}


def _options() -> argparse.Namespace:
    parser = step_parser("benchmarks.gpu", __doc__, ("build", "time", "page", "compile_time"),
                         "first letters of names")  # fmt: skip
    parser.add_argument("--dtype", choices=DTYPES, nargs="+", default=["float16"])
    parser.add_argument("--default", action="store_true", help="also TVM's default build")
    parser.add_argument(
        "--set", choices=SETS, default="first", help="later, last, newest: chosen to report"
    )
    parser.add_argument("--idle", action="store_true", help="of page: timed on an idle host")
    parser.add_argument("--page", action="store_true", help="of compile_time: write its page")
    parser.add_argument("--mode", nargs="*", default=["max-autotune"],
                        choices=MODES, help="of torch.compile; empty: without it")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    main()
