"""Workers that run the cases of a suite, and a supervisor that starts them again after a crash."""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.pages import add_page_option, write_below
from benchmarks.common.rows import STORED

from . import outcomes
from .outcomes import CRASHED, STARTED, Outcome


@dataclass(frozen=True)
class Suite:
    """A suite of cases.

    Attributes:
        command: The benchmark's name, as in `python -m benchmarks.NAME`; its page and rows have
            the same name with dashes.
        cases: Returns the cases with their names.
        outcome: Runs a case.
        meanings: What each verdict means, in the order of the table.
    """

    command: str
    cases: Callable[[], Sequence[tuple[str, Any]]]
    outcome: Callable[[Any], Outcome]
    meanings: Mapping[str, str]

    @property
    def stem(self) -> str:
        return self.command.replace("_", "-")

    @property
    def mark(self) -> str:
        return f"<!-- written by `python -m benchmarks.{self.command} --page` -->"


def main(suite: Suite, doc: str | None) -> None:
    """Run a suite by its command line and print its tables; exit 1 if an outcome is bad."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("prefix", nargs="*", default=[""])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=STORED / f"{suite.stem}.jsonl")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    add_page_option(parser, f"{suite.stem}.md")
    options = parser.parse_args()
    if options.worker is not None:
        work(suite, options.prefix, options.worker, options.jobs, options.out)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        more = (options.jobs, options.out)
        list(pool.map(lambda k: supervise(suite, options.prefix, k, *more), range(options.jobs)))
    rows = [row for row in outcomes.read(options.out).values()
            if row.name.startswith(tuple(options.prefix))]  # fmt: skip
    text = outcomes.tables(rows, suite.meanings)
    print(text)
    if options.page:
        write_below(options.page, suite.mark, text)
    sys.exit(any(row.verdict in outcomes.BAD for row in rows))


def supervise(suite: Suite, prefixes: list[str], worker: int, jobs: int, out: Path) -> None:
    """Run a worker until it has done its cases; the case on which it dies is a crash.

    Raises:
        RuntimeError: It died before its first case.
    """
    command = [sys.executable, "-m", f"benchmarks.{suite.command}", *prefixes, "--out", str(out),
               "--worker", str(worker), "--jobs", str(jobs)]  # fmt: skip
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True)  # fmt: skip
        names = process.communicate()[0].splitlines()
        if process.returncode == 0:
            return
        if not names:
            raise RuntimeError(f"worker {worker} died before its first case")
        if outcomes.read(out)[names[-1]].verdict != STARTED:
            raise RuntimeError(f"worker {worker} died after {names[-1]}")
        outcomes.append(out, Outcome(names[-1], CRASHED, f"exit status {process.returncode}"))


def work(suite: Suite, prefixes: list[str], worker: int, jobs: int, out: Path) -> None:
    """Run one in `jobs` of the cases that have no outcome yet."""
    warnings.simplefilter("ignore")
    known = outcomes.read(out)
    for name, case in suite.cases()[worker::jobs]:
        row = known.get(name)
        if name.startswith(tuple(prefixes)) and (row is None or row.verdict == STARTED):
            outcomes.append(out, Outcome(name, STARTED))
            print(name, flush=True)
            outcomes.append(out, suite.outcome(case))
