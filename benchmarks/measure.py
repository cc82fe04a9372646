"""What the benchmarks measure with: CPU seconds and resident memory of this process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
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
    """The most bytes that were resident since :func:`forget_peak`."""
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
