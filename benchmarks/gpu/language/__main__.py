"""Language models on a GPU beside TVM's default schedules, in two steps, and a page.

    python -m benchmarks.gpu.language build DIR    # on all cores; needs no GPU
    python -m benchmarks.gpu.language time DIR     # one case after another
    python -m benchmarks.gpu.language page DIR     # docs/results/gpu-language.md, on any machine

A case is a format of weights and a step: prefill of 128 or 1024 tokens, or decoding of one token
over a cache. `python -m benchmarks.gpu.language.products` times the products of decoding alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from benchmarks.common.step_parser import step_parser

from .builds import FORMATS, STEPS, WAYS
from .language_page import write

#: Seconds after which a process is ended.
LIMIT = 185


def run(module: str, *words: str) -> int:
    """Run a module of this package; returns its exit status."""
    command = [sys.executable, "-m", f"benchmarks.gpu.language.{module}", *words]
    try:
        return subprocess.run(command, timeout=LIMIT).returncode
    except subprocess.TimeoutExpired:
        print(f"{' '.join(words)}: ended after {LIMIT} s", flush=True)
        return 1


def main() -> None:
    """Run one step."""
    parser = step_parser("benchmarks.gpu.language", __doc__, ("build", "time", "page"),
                         "first letters of cases", os.cpu_count() or 1)  # fmt: skip
    parser.add_argument("--sizes", metavar="JSON", help="other sizes of the model")
    options = parser.parse_args()
    if options.step == "page":
        print(f"written: {write(options.folder)}")
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    cases = [f"{form}-{step}" for form in FORMATS for step in STEPS]
    chosen = [c for c in cases if not options.only or any(c.startswith(o) for o in options.only)]
    more = [options.sizes] if options.sizes else []
    if options.step == "build":
        todo = [(str(options.folder), c, w, *more) for c in chosen for w in WAYS
                if w != "library" or c == "float16-decode"]  # fmt: skip
        with ThreadPoolExecutor(options.jobs) as pool:
            sys.exit(any(pool.map(lambda words: run("builds", *words), todo)))
    sys.exit(any([run("times", str(options.folder), c, *more) for c in chosen]))


if __name__ == "__main__":
    main()
