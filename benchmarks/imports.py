"""What `import opinfo` adds to `import tvm`.

    python -m benchmarks.imports [--runs 7] [--out FILE]

CPU seconds of fresh interpreters, the two imports in turn, so that both see the same machine; the
smallest of each counts, since nothing makes an import faster than it is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from .measure import write

RESULTS = Path(__file__).parent / "results" / "imports.json"
CODE = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


def seconds(name: str) -> float:
    """CPU seconds of an import in a fresh interpreter."""
    command = [sys.executable, "-c", CODE.format(name)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(runs: int) -> dict[str, float]:
    """The smallest times of both imports, and what the second adds."""
    pairs = [(seconds("tvm"), seconds("opinfo")) for _ in range(runs + 1)][1:]
    tvm, opinfo = (min(times) for times in zip(*pairs, strict=True))
    return {"tvm_s": tvm, "opinfo_s": opinfo, "added": opinfo / tvm - 1}


def main() -> None:
    """Run, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measure(options.runs)
    print(f"tvm {found['tvm_s']:.2f} s, opinfo {found['opinfo_s']:.2f} s: {found['added']:+.1%}")
    write(options.out, found)


if __name__ == "__main__":
    main()
