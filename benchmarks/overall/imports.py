"""Time `import opinfo` against `import tvm`.

    python -m benchmarks.imports [--runs 7] [--out FILE]

CPU seconds of new interpreters, with the imports in turns, so that they run under the same load;
the minimum counts, since load only makes an import slower. `import opinfo` loads names on first
use; `all of opinfo` loads everything that an analysis needs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.common.rows import STORED, write

RESULTS = STORED / "imports.json"
CODE = "import time; start = time.process_time(); {}; print(time.process_time() - start)"
IMPORTS = {
    "tvm": "import tvm",
    "opinfo": "import tvm, opinfo",
    "all of opinfo": "import tvm; from opinfo import *",
}


def seconds(statement: str) -> float:
    """Return the CPU seconds of an import in a fresh interpreter."""
    command = [sys.executable, "-c", CODE.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(runs: int) -> dict[str, float]:
    """Return the minimum time of each import; the first run only fills caches."""
    rounds = [[seconds(s) for s in IMPORTS.values()] for _ in range(runs + 1)][1:]
    return {
        name: min(times) for name, times in zip(IMPORTS, zip(*rounds, strict=True), strict=True)
    }


def main() -> None:
    """Run, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    times = measure(options.runs)
    for name, duration in times.items():
        print(f"{name:14}{duration:6.2f} s {duration / times['tvm'] - 1:+7.1%}")
    write(options.out, times)


if __name__ == "__main__":
    main()
