"""Compile whole models for an NVIDIA GPU and time them against `torch.compile` and TVM's default.

    python -m benchmarks.gpu build DIR [--only NAME ...] [--dtype float16] [--jobs 8] [--default]
    python -m benchmarks.gpu time DIR [--only NAME ...] [--dtype float16] [--jobs 1]
                             [--mode max-autotune]
    python -m benchmarks.gpu page DIR
    python -m benchmarks.gpu compile_time DIR [--only NAME ...] [--dtype float16] [--page]

`build` compiles each model in its own process, several at a time; with `--default` also by TVM
alone. `time` calls all builds and torch in turns in one process a model, with CUDA graphs on all
sides, compares outputs with torch in float32, and counts kernels and their time; with several jobs,
the other ones prepare meanwhile. Rows are kept in DIR, a file each. `page` writes
docs/results/gpu.md from them. `compile_time` compiles each model alone, with an empty cache and
then with the one that is left, and with `--page` writes docs/results/gpu-compile.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .architectures import NETS
from .compile_time import compile_times
from .page import write

#: Seconds after which a model's process is ended.
LIMIT = 420


def names(only: Sequence[str] | None) -> list[str]:
    """Return ``NET-bN`` for each net and batch size, or those that start with one of ``only``."""
    every = [f"{net}-b{batch}" for net, spec in NETS.items() for batch in spec.batches]
    return [n for n in every if not only or any(n.startswith(o) for o in only)]


def main() -> None:
    """Run one step."""
    options = _options()
    if options.step == "page":
        print(f"written: {write(options.folder)}")
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.step == "compile_time":
        todo = names(options.only)
        sys.exit(compile_times(options.folder, todo, options.dtype, options.page))
    more = [options.dtype, options.mode if options.step == "time" else str(options.default)]
    failed = _run(options.step, options.folder, names(options.only), more, options.jobs)
    sys.exit(failed)


def _run(step: str, folder: Path, todo: list[str], more: Sequence[str], jobs: int) -> bool:
    live: list[tuple[str, float, subprocess.Popen[bytes]]] = []
    failed = False
    waiting = list(todo)
    while waiting or live:
        while waiting and len(live) < jobs:
            name = waiting.pop(0)
            command = [
                sys.executable,
                "-m",
                f"benchmarks.gpu.{step}_model",
                str(folder),
                name,
                *more,
            ]
            live.append((name, time.monotonic(), subprocess.Popen(command)))
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("step", choices=("build", "time", "page", "compile_time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="first letters of names")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--default", action="store_true", help="also TVM's default build")
    parser.add_argument("--page", action="store_true", help="of compile_time: write its page")
    parser.add_argument("--mode", default="max-autotune", help="of torch.compile; none: without it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
