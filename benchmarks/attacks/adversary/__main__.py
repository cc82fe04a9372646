"""Generate programs that invite wrong answers, and run each answer beside the program.

    python -m benchmarks.adversary [--count 5000] [--first 0] [--hash-seeds 5 [--again 1000]]
                                   [--log rows.jsonl]
                                   [--page [FILE]] [--show SEED]

Fails on a wrong answer, an exception, more than 5 s of CPU for one question, a 99th percentile
above 1 s, or a question whose answer depends on the hash seed. Each chunk of programs runs in its
own process; if that dies, its programs run one by one. An existing log is continued.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.pages import add_page_option

from .adversary_page import LONGEST, P99, page, percentile

#: Programs of one process, which compiles them together.
CHUNK = 100
#: Seconds after which a process has hung.
PATIENCE = 900

Logged = dict[str, Any]


def main() -> None:
    """Run, print the page, exit 1 if a condition fails."""
    options = _options()
    if options.worker or options.ask:
        _work(options)
        return
    if options.show is not None:
        _show(options.show)
        return
    rows = _logged(options.log)
    judged = {r["seed"] for r in rows}
    seeds = [s for s in range(options.first, options.first + options.count) if s not in judged]
    for start in range(0, len(seeds), CHUNK):
        rows += _kept(_judged(seeds[start : start + CHUNK]), options.log)
        bad = [r for r in rows if r["verdict"] in ("wrong", "raised", "died")]
        print(f"{start + CHUNK} of {len(seeds)}: {len(bad)} bad", file=sys.stderr, flush=True)
    several = _under_hash_seeds(options)
    text = page(rows, several, options.count, options.first)
    print(text)
    if options.page:
        options.page.write_text(text, encoding="utf-8")
    slow = max((r["cpu"] for r in rows), default=0.0) > LONGEST or percentile(rows) > P99
    bad = [r for r in rows if r["verdict"] in ("wrong", "raised", "died")]
    for row in bad:
        print(f"{row['verdict']}: {row}", file=sys.stderr)
    sys.exit(int(bool(bad or slow or several.differ)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="programs")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--hash-seeds", type=int, default=0, help="runs that must agree")
    parser.add_argument("--again", type=int, help="programs of each of those runs: all")
    parser.add_argument("--log", type=Path, help="where rows are kept, one a line")
    add_page_option(parser, "adversary.md")
    parser.add_argument("--show", type=int, help="print one program and what became of it")
    parser.add_argument("--worker", nargs="*", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs="*", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--shuffle", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _work(options: argparse.Namespace) -> None:
    """Judge or ask about a chunk of programs, and print rows on standard output."""
    from .judge import ask, judge

    if options.worker:
        for row in judge(options.worker):
            print(json.dumps(row.to_json()))
        return
    first, count = options.ask
    seeds = list(range(first, first + count))
    if options.shuffle:
        random.Random(options.shuffle).shuffle(seeds)
    for seed in seeds:
        for row, _ in ask(seed, options.shuffle)[2]:
            print(json.dumps([seed, row.question, row.said]))


def _show(seed: int) -> None:
    from .generate import program
    from .judge import judge

    print(program(seed).source)
    for row in judge([seed]):
        print(row)


def _child(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {"TVM_NUM_THREADS": "1", **env}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.adversary", *map(str, args)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=None if "--ask" in args else PATIENCE,
    )


def _judged(seeds: list[int]) -> Iterator[Logged]:
    try:
        run = _child("--worker", *seeds)
        ended = f"exit code {run.returncode}"
    except subprocess.TimeoutExpired:
        run, ended = None, f"more than {PATIENCE} s"
    if run is not None and run.returncode == 0:
        yield from map(json.loads, run.stdout.splitlines())
    elif len(seeds) > 1:
        for seed in seeds:
            yield from _judged([seed])
    else:
        yield {"seed": seeds[0], "family": "", "question": "", "verdict": "died", "said": ended,
               "note": "", "cpu": 0.0}  # fmt: skip


def _logged(log: Path | None) -> list[Logged]:
    if log is None or not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines()]


def _kept(rows: Iterator[Logged], log: Path | None) -> list[Logged]:
    results = list(rows)
    if log is not None:
        with log.open("a") as lines:
            lines.writelines(json.dumps(r) + "\n" for r in results)
    return results


class Several:
    """The answers to each question in runs under different hash seeds."""

    def __init__(self) -> None:
        self.runs = 0
        self.said: dict[tuple[int, str], set[str]] = {}

    @property
    def differ(self) -> dict[tuple[int, str], set[str]]:
        """The questions with more than one answer."""
        return {key: texts for key, texts in self.said.items() if len(texts) > 1}


def _under_hash_seeds(options: argparse.Namespace) -> Several:
    """Ask all questions in several orders, with other names and other hash seeds."""
    several = Several()
    for k in range(options.hash_seeds):
        count = options.again or options.count
        run = _child("--ask", options.first, count, "--shuffle", k, PYTHONHASHSEED=str(17 * k + 1))
        several.runs += 1
        for line in run.stdout.splitlines():
            seed, question, said = json.loads(line)
            several.said.setdefault((seed, question), set()).add(said)
    for (seed, question), texts in sorted(several.differ.items()):
        print(f"seed {seed}, {question}: {sorted(texts)}", file=sys.stderr)
    return several


if __name__ == "__main__":
    main()
