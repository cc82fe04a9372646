"""Run ONNX's own operator tests through `opinfo.load` and `opinfo.compile`.

    python -m benchmarks.onnx_operators [PREFIX ...] [--jobs 2] [--out FILE] [--page [FILE]]

Prints a table of outcomes, and exits with 1 if one is wrong, crashed, late or does not compile.
Each outcome is appended to FILE at once; cases that are there already are not run again, so
a run that was stopped goes on. A prefix selects cases by name, such as `test_reduce_max`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.common.pages import add_page_option, write_below
from benchmarks.common.rows import STORED
from benchmarks.overall.onnx_suite import cases, outcomes
from benchmarks.overall.onnx_suite.outcomes import CRASHED, STARTED, Outcome

MARK = "<!-- written by `python -m benchmarks.onnx_operators --page` -->"
#: Limit on the time of a case, in seconds.
SECONDS = 120


def main() -> None:
    """Run and print; exit 1 if a case has a bad outcome."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("prefix", nargs="*", default=["test_"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=STORED / "onnx-operators.jsonl")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    add_page_option(parser, "onnx-operators.md")
    options = parser.parse_args()
    if options.worker is not None:
        work(options.prefix, options.worker, options.jobs, options.out)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = range(options.jobs)
        list(pool.map(lambda k: supervise(options.prefix, k, options.jobs, options.out), jobs))
    rows = [row for row in outcomes.read(options.out).values()
            if row.name.startswith(tuple(options.prefix))]  # fmt: skip
    text = outcomes.tables(rows)
    print(text)
    if options.page:
        write_below(options.page, MARK, text)
    sys.exit(any(row.verdict in outcomes.BAD for row in rows))


def supervise(prefixes: list[str], worker: int, jobs: int, out: Path) -> None:
    """Run a worker until it has done its cases; the case on which it dies is a crash.

    Raises:
        RuntimeError: It died before its first case.
    """
    command = [sys.executable, "-m", "benchmarks.onnx_operators", *prefixes, "--out", str(out),
               "--worker", str(worker), "--jobs", str(jobs)]  # fmt: skip
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True)  # fmt: skip
        names = process.communicate()[0].split()
        if process.returncode == 0:
            return
        if not names:
            raise RuntimeError(f"worker {worker} died before its first case")
        if outcomes.read(out)[names[-1]].verdict != STARTED:
            raise RuntimeError(f"worker {worker} died after {names[-1]}")
        outcomes.append(out, Outcome(names[-1], CRASHED, f"exit status {process.returncode}"))


def work(prefixes: list[str], worker: int, jobs: int, out: Path) -> None:
    """Run one in `jobs` of the cases that have no outcome yet."""
    warnings.simplefilter("ignore")
    known = outcomes.read(out)
    for case in cases.collected()[worker::jobs]:
        row = known.get(case.name)
        if case.name.startswith(tuple(prefixes)) and (row is None or row.verdict == STARTED):
            outcomes.append(out, Outcome(case.name, STARTED))
            print(case.name, flush=True)
            outcomes.append(out, cases.outcome(case, SECONDS))


if __name__ == "__main__":
    main()
