"""Measure the memory of a session under a storm of shapes and a budget.

    python -m benchmarks.shapes.storm [--shapes 1000] [--seconds 120] [--kernels 32] [--mib 4]

The MLP runs in three fresh processes, one with `jit` under the budget, two with `generic`. They
answer the same requests in turns, in blocks of 50, mostly of sizes that do not recur soon. Between
blocks the first one may compile for some seconds, so that kernels are added and evicted under any
load of the machine. Prints the resident memory; the largest excess of the first process over the
second at the end of a block, relative to the budget; the excess of the third over the second, which
is chance in malloc; the mapped kernel libraries; and the time of a block relative to generic's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common import symbolic_models
from benchmarks.common.resources import percentile, resident, use_threads

#: Requests of a block, and how many of them are of the storm; the others have common sizes.
BLOCK, STORM = 50, 45
USUAL = (1, 8, 16, 64)
#: Seconds of compiling allowed between two blocks.
PAUSE = 4.0


def worker(library: str, kernels: int, size: int) -> None:
    """Serve blocks of sizes, one on each line of standard input."""
    import tvm

    from opinfo.jit import Budget, Session

    with Session(library, budget=Budget(kernels=kernels, bytes=size)) as session:
        for line in sys.stdin:
            sizes = json.loads(line)
            times = []
            for n in sizes:
                tensor = tvm.runtime.tensor(symbolic_models.input_of("mlp", n))
                start = time.perf_counter_ns()
                session(tensor)
                times.append((time.perf_counter_ns() - start) / 1e3)
            session.settle(PAUSE)
            maps = Path("/proc/self/maps").read_text().splitlines()
            mapped = len({m.split()[4] for m in maps if "opinfo-jit-" in m})
            row = {"us": times, "resident": resident(), "mapped": mapped}
            if not sizes:  # an empty block ends the run
                stats = session.stats()
                row |= {"stats": str(stats), "bytes": stats.bytes}
            print(json.dumps(row), flush=True)


@dataclass
class Server:
    """A process that serves requests."""

    process: subprocess.Popen[str]

    @staticmethod
    def start(library: Path, *budget: int) -> Server:
        command = [sys.executable, "-m", "benchmarks.shapes.storm", "--worker", str(library)]
        return Server(subprocess.Popen([*command, *map(str, budget)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True))  # fmt: skip

    def ask(self, sizes: list[int]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(sizes) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self) -> None:
        self.process.communicate()


def storm(shapes: int, seconds: float, kernels: int, size: int) -> list[Any]:
    """Run the storm; return the answers of each process for each block."""
    from opinfo.jit import compile_shapes

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        servers = []
        mod = symbolic_models.module("mlp")
        for k, how in enumerate(("jit", "generic", "generic")):
            compile_shapes(mod, how).export(Path(name) / f"{how}{k}.so")
            servers.append(Server.start(Path(name) / f"{how}{k}.so", kernels, size))
        rows: list[Any] = []
        waiting: list[int] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(rows) * STORM < 2 * shapes:
            if not waiting:
                waiting = [int(n) + 1 for n in rng.permutation(shapes)]
            block, waiting = waiting[:STORM], waiting[STORM:]
            block += [int(n) for n in rng.choice(USUAL, BLOCK - len(block))]
            order = (0, 1, 2) if len(rows) % 2 else (1, 0, 2)
            answers = {which: servers[which].ask(block) for which in order}
            rows.append([answers[k] for k in range(3)])
        rows.append([s.ask([]) for s in servers])
        for server in servers:
            server.stop()
    return rows


def show(rows: list[Any], size: int) -> None:
    last, generic, _ = rows.pop()
    extra = [a["resident"] - b["resident"] for a, b, _ in rows]
    chance = [c["resident"] - b["resident"] for _, b, c in rows]
    ratios = [sum(a["us"]) / sum(b["us"]) for a, b, _ in rows]
    total = sum(sum(a["us"]) for a, *_ in rows) / sum(sum(b["us"]) for _, b, _ in rows)
    lines = [
        f"{len(rows) * BLOCK} requests: {last['stats']}",
        f"resident: {mib(last['resident'])}, with generic kernels only {mib(generic['resident'])}",
        f"beyond generic: {mib(extra[0])} after the first block, median {mib(median(extra))}, at "
        f"most {mib(max(extra))}, {max(extra) / size:.2f} x the budget of {mib(size)}",
        f"another one with generic kernels beyond it: {mib(min(chance))} to {mib(max(chance))}",
        f"kernels: {mib(last['bytes'])} as counted, {max(a['mapped'] for a, *_ in rows)} libraries "
        "mapped at most",
        f"time of a block over generic's: median {median(ratios):.3f} x, 95% "
        f"{percentile(ratios, 0.95):.3f} x, all together {total:.3f} x",
    ]
    print("\n".join(lines))


def mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def main(arguments: Sequence[str] | None = None) -> int:
    use_threads(1)
    warnings.simplefilter("ignore")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--worker"]:
        worker(words[1], int(words[2]), int(words[3]))
        return 0
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.shapes.storm", description=__doc__,
                                     formatter_class=how)  # fmt: skip
    parser.add_argument("--shapes", type=int, default=1000, help="a multiple of 50")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--kernels", type=int, default=32)
    parser.add_argument("--mib", type=int, default=4)
    options = parser.parse_args(words)
    size = options.mib << 20
    show(storm(options.shapes, options.seconds, options.kernels, size), size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
