"""Read and time real models that nothing was tuned for, each in its own process.

    python -m benchmarks.zoo [--held-out | --all | --later | --last | --proxies] [--step read]
                             [--threads 1 2] [--json FILE] [--again] [--busy] [--page] [MODEL ...]

`read` reads a model as shipped, compiles it for its symbolic shapes, and compares its outputs at
several shapes. `speed` compiles it for static shapes and times it against ONNX Runtime, OpenVINO
and `torch.compile`. The models are split by a hash of their names: by default only the open half is
run, since the held-out half is there to report; `--later` runs models that were chosen after its
last report and have been worked on since, `--last` those chosen after that. `--proxies` runs models
of ours that are in neither half, quantised and small ones, on which runtimes are strong; the pages
leave them out. Rows are kept in FILE; models that have one are skipped unless `--again` is given,
or `--busy` and other processes had over a tenth of the CPU time of all cores. A model that cannot
be downloaded gets none. `--page` writes docs/results/zoo.md and one page for this CPU's vectors,
and beside each page its rows as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.option_checks import count, one_of, rows_file, stored_rows
from benchmarks.common.pages import PAGES
from benchmarks.common.rows import STORED

from . import results_page
from .models.fetch import NOT_FETCHED, NotFetched
from .models.last_models import LAST
from .models.later_files import LATER
from .models.proxies import PROXIES
from .models.subject import every, names
from .split import is_open

#: Seconds after which a model's process is ended.
LIMIT = 1800
STEPS = ("read", "speed")


def main() -> None:
    """Measure what is missing, store it, print a line for each row."""
    options = _options()
    path = options.json
    rows, absent = stored_rows(path), 0
    for step in options.step:
        for threads in options.threads if step == "speed" else [1]:
            for name in options.model or _chosen(options):
                key = f"{step} {name} {threads}"
                if key in rows and not options.again:
                    if not options.busy or not results_page.is_busy(rows[key]):
                        continue
                try:
                    rows[key] = measured(step, name, threads)
                except NotFetched as error:
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    absent += 1
                    continue
                _store(path, rows)
                print(results_page.as_line(step, rows[key]), flush=True)
    if options.page:
        for written in results_page.write(_of_the_zoo(rows), PAGES):
            print(f"written: {written}")
    sys.exit(absent > 0)


def _store(path: Path, rows: dict[str, Any]) -> None:
    """Replace the file of rows: a run that is ended meanwhile leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(rows, indent=1) + "\n")
    part.replace(path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", type=one_of([*every(), *PROXIES]),
                        help="names in place of the open half")  # fmt: skip
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--held-out", action="store_true", help="the other half")
    half.add_argument("--all", action="store_true", help="both halves")
    half.add_argument("--later", action="store_true", help="models chosen later")
    half.add_argument("--last", action="store_true", help="held-out models chosen last")
    half.add_argument("--proxies", action="store_true", help="models of ours, in neither half")
    parser.add_argument("--step", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--threads", nargs="+", type=count, default=[1, 2])
    parser.add_argument("--json", metavar="FILE", type=rows_file, default=STORED / "zoo.json")
    parser.add_argument("--again", action="store_true", help="replace rows")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="replace rows that were timed on a machine with other work",
    )
    parser.add_argument("--page", action="store_true", help="write the pages")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Sequence[str]:
    if options.proxies:
        return [*PROXIES]
    if options.later or options.last:
        return sorted(LATER if options.later else LAST)
    return [n for n in names() if options.all or is_open(n) != options.held_out]


def _of_the_zoo(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of models in one of the halves."""
    return {key: row for key, row in rows.items() if row["name"] not in PROXIES}


def measured(step: str, name: str, threads: int) -> dict[str, Any]:
    """Return the row of a model; what ended its process is a row too. Raises `NotFetched`."""
    command = [sys.executable, "-m", "benchmarks.zoo.model_worker", step, name, str(threads)]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True,
                                     timeout=LIMIT, check=True)  # fmt: skip
            row = json.loads(process.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            row = {"name": name, "refusal": f"no result in {LIMIT} s"}
        except subprocess.CalledProcessError as error:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [""])[-1][:300]
            if error.returncode == NOT_FETCHED:
                raise NotFetched(last) from None
            row = {"name": name, "refusal": f"process ended with {error.returncode}: {last}"}
    return {"threads": threads, **row, "cpu": results_page.cpu_name(),
            "wall": round(time.monotonic() - start, 1)}  # fmt: skip


if __name__ == "__main__":
    main()
