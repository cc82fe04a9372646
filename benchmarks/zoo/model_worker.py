"""Measure one model in this process; the last line of output is JSON.

python -m benchmarks.zoo.model_worker {read|speed} NAME THREADS
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from . import reading, speed
from .models.fetch import NOT_FETCHED, NotFetched


def main() -> None:
    """Measure and print a row."""
    step, name, threads = sys.argv[1:]
    try:
        row = reading.measure(name) if step == "read" else speed.measure(name, int(threads))
    except NotFetched as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_FETCHED)
    print(json.dumps(asdict(row)))


if __name__ == "__main__":
    main()
