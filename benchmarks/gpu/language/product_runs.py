"""The command of benchmarks of products: build all in parallel, then time one after another."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu.gpu_kernels.kernel_times import bandwidth


def parser(module: str) -> argparse.ArgumentParser:
    """Return a parser with the options of `run`."""
    options = argparse.ArgumentParser(prog=f"python -m {module}")
    options.add_argument("--json", type=Path)
    options.add_argument("--arch", default="sm_90")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--build", action="store_true", help="only build; needs no GPU")
    return options


def run(
    options: argparse.Namespace,
    jobs: Iterable[Any],
    build: Callable[..., dict[str, Any]],
    measure: Callable[[dict[str, Any], float], dict[str, Any]],
) -> None:
    """Build and time; print a row as JSON for each job, and write all to ``--json``.

    Args:
        options: What a `parser` returned.
        jobs: The products.
        build: Builds a job into ``folder`` for ``arch``; returns it with the path, or an error.
        measure: Times a build on the device, whose bandwidth is bytes per second.
    """
    begun = time.perf_counter()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            builds = list(pool.map(partial(build, folder=folder, arch=options.arch), jobs))
        print(f"built {len(builds)} in {time.perf_counter() - begun:.0f} s", flush=True)
        if options.build:
            print(*(b for b in builds if not b["path"].endswith(".so")), sep="\n")
            return
        import torch

        limit = bandwidth(torch)
        print(f"{torch.cuda.get_device_name()}, copy {limit / 1e9:.0f} GB/s", flush=True)
        for built in builds:
            try:
                rows.append(measure(built, limit))
            except Exception as error:
                note = f"{type(error).__name__}: {str(error)[:150]}"
                rows.append({"job": built["job"], "note": note})
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows))
