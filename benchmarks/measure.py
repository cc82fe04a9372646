"""What the benchmarks measure with, and keep: CPU seconds, resident memory, rows of models."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds that this process spends on something, and its result.

    Wall time says more about what else runs on the machine.
    """
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def resident() -> int:
    """Bytes of memory that are resident now."""
    return _status("VmRSS")


def forget_peak() -> None:
    """Start to look for the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most bytes that were resident since `forget_peak`."""
    return _status("VmHWM")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise KeyError(field)


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def fresh(module: str, *words: str) -> Any:
    """What a worker of a benchmark prints as JSON, from a process of its own."""
    command = [sys.executable, "-m", module, "--worker", *words]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(told.stdout)


def write(path: Path, results: Any) -> None:
    """Results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {path}")


def of_models(module: str, doc: str | None, models: Sequence[str]) -> argparse.ArgumentParser:
    """The options of a benchmark of some models whose rows are kept."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", default=models, help=", ".join(models))
    parser.add_argument("--json", metavar="FILE", type=Path, help="rows are kept there, by model")
    return parser


def use_threads(count: int) -> None:
    """How many threads the libraries have, which look when they are loaded."""
    if "tvm" in sys.modules:
        raise RuntimeError(f"TVM is imported already: it would not have {count} threads")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(count)


def kept(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a file; none where there is no file yet."""
    return json.loads(path.read_text()) if path is not None and path.exists() else []


def keep(path: Path | None, row: Any, *key: str) -> None:
    """Put a row into a file, in the place of the one with the same ``key``."""
    told = asdict(row)
    others = [r for r in kept(path) if any(r[k] != told[k] for k in key)]
    if path is not None:
        write(path, [*others, told])
