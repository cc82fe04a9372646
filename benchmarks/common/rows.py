"""Rows of a benchmark: measured in worker processes, stored as JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

#: Default folder for rows, without `--out` or `--json`; git ignores it.
STORED = Path(__file__).parents[1] / "results"


def run_worker(module: str, *words: str) -> Any:
    """Run a worker of a benchmark in a new process; return the JSON that it prints."""
    command = [sys.executable, "-m", module, "--worker", *words]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(process.stdout)


def write(path: Path, results: Any) -> None:
    """Write results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {path}")


def model_parser(module: str, doc: str | None, models: Sequence[str]) -> argparse.ArgumentParser:
    """Return the options of a benchmark that stores a row for each model."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", default=models, help=", ".join(models))
    parser.add_argument("--json", metavar="FILE", type=Path, help="rows are kept there, by model")
    return parser


def stored_rows(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a file; none if it does not exist."""
    return json.loads(path.read_text()) if path is not None and path.exists() else []


def store_row(path: Path | None, row: Any, *key: str) -> None:
    """Store a row in a file, replacing the one with the same ``key``."""
    values = asdict(row)
    others = [r for r in stored_rows(path) if any(r[k] != values[k] for k in key)]
    if path is not None:
        write(path, [*others, values])


def measure_models(
    options: argparse.Namespace,
    measure: Callable[[str], Any],
    row_type: Callable[..., Any],
    page: Callable[[list[Any]], str],
) -> list[Any]:
    """Measure each model of the options, print and store its row; write the page if asked to.

    Returns:
        The rows that were measured.
    """
    rows = []
    for name in options.model:
        rows.append(measure(name))
        print(rows[-1].as_line(), flush=True)
        store_row(options.json, rows[-1], "model")
    if options.page:
        stored = [row_type(**v) for v in stored_rows(options.json)] if options.json else rows
        options.page.write_text(page(stored), encoding="utf-8")
    return rows
