"""Generate ONNX models, compile them in every way, and compare with ONNX Runtime.

    python -m benchmarks.onnx_fuzz [--count 500] [--first 0] [--nodes N] [--ways tvm,default]
                                   [--each 2] [--log rows.jsonl] [--page [FILE]]
    python -m benchmarks.onnx_fuzz --only SEED [--ways default] [--minimise small.onnx]
    python -m benchmarks.onnx_fuzz --file small.onnx [--ways default] [--minimise FILE]

A seed is a model of 5 to 40 nodes. It is imported, compiled with TVM's code, and in `--each` of
the other ways, which its seed chooses, unless `--ways` lists them. A model with symbolic dimensions
runs with three sizes of each. Exits with 1 if an output is wrong, something raises that is not a
refusal, or a process dies. An existing log is continued.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.pages import add_page_option

from . import random_model
from .fuzz_page import page
from .fuzzer import BAD, Fuzzer
from .ways import FIRST, WAYS

#: How often other ways are drawn, for those where it is not once.
OFTEN = {"default": 4, "session": 3, "ahead": 3}


def main() -> None:
    """Run, print what is bad and the page; exit 1 if anything is."""
    options = _options()
    fuzzer = Fuzzer(options.nodes)
    try:
        if options.only is not None or options.file:
            rows = list(_one(fuzzer, options))
        else:
            rows = list(_many(fuzzer, options))
            text = page(rows, options.first, options.count, options.each)
            print(text)
            if options.page:
                options.page.write_text(text, encoding="utf-8")
    finally:
        fuzzer.close()
    sys.exit(int(any(row["verdict"] in BAD for row in rows)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="models")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--nodes", type=int, default=0, help="about how many in each model")
    parser.add_argument("--ways", default="", help=f"of {', '.join(WAYS)}, with commas")
    parser.add_argument("--each", type=int, default=2, help="other ways of a model")
    parser.add_argument("--log", type=Path, help="where to keep each row")
    parser.add_argument("--only", type=int, metavar="SEED", help="one model, in all ways")
    parser.add_argument("--file", type=Path, help="a model that --minimise wrote")
    parser.add_argument("--minimise", type=Path, metavar="FILE", help="shrink what is bad")
    add_page_option(parser, "onnx-fuzz.md")
    return parser.parse_args()


def ways_of(seed: int, named: str, each: int) -> list[str]:
    """Return the ways of a seed: those named, or TVM's code and some others."""
    if named:
        return named.split(",")
    others = [way for way in WAYS if way not in FIRST]
    rng = random.Random(f"ways {seed}")
    drawn = rng.choices(others, [OFTEN.get(way, 1) for way in others], k=each)
    return [*FIRST, *dict.fromkeys(drawn)]


def _many(fuzzer: Fuzzer, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of all seeds, those of the log first."""
    last = options.first + options.count
    lines = options.log.read_text().splitlines() if options.log and options.log.exists() else []
    known = [json.loads(line) for line in lines]
    yield from (row for row in known if options.first <= row["seed"] < last)
    seen = {row["seed"] for row in known}
    for seed in range(options.first, last):
        if seed in seen:
            continue
        for row in fuzzer.judged(seed, ways_of(seed, options.ways, options.each)):
            if options.log:
                with options.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            _told(row)
            yield row


def _one(fuzzer: Fuzzer, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of one model, and shrink it if asked."""
    ways = options.ways.split(",") if options.ways else list(WAYS)
    model = (
        random_model.saved(options.file)
        if options.file
        else random_model.model(options.only, options.nodes)
    )
    for row in fuzzer.judged_model(model, ways):
        print(f"{row['way']}: {row['verdict']} {row['why']}", flush=True)
        yield row
        if options.minimise and row["verdict"] in BAD:
            from onnx import printer

            small = fuzzer.minimised(model, row, options.minimise)
            print(printer.to_text(small.proto))
            print(f"python -m benchmarks.onnx_fuzz --file {options.minimise} --ways {row['way']}")
            return


def _told(row: dict[str, Any]) -> None:
    if row["verdict"] in BAD:
        print(f"seed {row['seed']}: {row['way']}: {row['verdict']}: {row['why']}", flush=True)


if __name__ == "__main__":
    main()
