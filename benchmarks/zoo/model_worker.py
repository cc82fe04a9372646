"""Measure one model in this process; the last line of output is JSON.

python -m benchmarks.zoo.model_worker {read|speed} NAME THREADS
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from . import reading, speed


def main() -> None:
    """Measure and print a row."""
    step, name, threads = sys.argv[1:]
    row = reading.measure(name) if step == "read" else speed.measure(name, int(threads))
    print(json.dumps(asdict(row)))


if __name__ == "__main__":
    main()
