"""Serve a stream of requests of many shapes, against `torch.compile(dynamic=True)`.

    python -m benchmarks.gpu.stream build DIR [--only NAME ...] [--jobs 8]
    python -m benchmarks.gpu.stream time DIR [--only NAME ...] [--alone]
    python -m benchmarks.gpu.stream page DIR

200 requests of 40 shapes, which come as often as words of a text do. `build` compiles one library
for all shapes of a model, and one for each of four shapes alone. `time` sends each request to all
sides in turns, twice: the first time shapes are new. Each side was called with two other shapes
before. With `--alone` only opinfo is timed, and nothing is kept for the page. `page` writes the
last section of docs/results/gpu.md from the rows in DIR.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.step_parser import step_parser

from .stream_requests import STREAMS, halves, network, shaped

#: Seconds after which a build is ended.
LIMIT = 500


def build(folder: Path, name: str, shape: Sequence[int]) -> dict[str, Any]:
    """Compile a model for a shape, or for all shapes; return the row."""
    import torch

    import opinfo

    stream, module = network(name)
    stem = folder / shaped(name, shape)
    dims = None if shape else stream.dims()
    example = halves(stream.inputs(shape or stream.samples[1]))
    begun = time.perf_counter()
    with torch.no_grad():
        program = torch.export.export(module, (example,), dynamic_shapes=dims, strict=False)
    torch.export.save(program, f"{stem}.pt2")
    mod = opinfo.load(f"{stem}.pt2")
    Path(f"{stem}.pt2").unlink()
    read = time.perf_counter() - begun
    compiled = opinfo.compile(mod, ["cudnn", "cublaslt", "tvm"], target="cuda")
    compiled.export(f"{stem}.so")
    assert compiled.dispatched is not None
    return {"name": name, "shape": list(shape), "read_s": read,
            "compile_s": time.perf_counter() - begun - read,
            "summary": compiled.dispatched.summary()}  # fmt: skip


def main() -> None:
    """Run one step."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [n for n in STREAMS if not options.only or n in options.only]
    if options.step == "one":
        name, *shape = options.only
        stem = options.folder / shaped(name, list(map(int, shape)))
        try:
            row = build(options.folder, name, list(map(int, shape)))
        except Exception as error:
            row = {"name": name, "shape": shape, "error": f"{type(error).__name__}: {error}"[:300]}
            Path(f"{stem}.err").write_text(traceback.format_exc())
        Path(f"{stem}.json").write_text(json.dumps(row))
        print(json.dumps(row), flush=True)
        sys.exit("error" in row)
    if options.step == "build":
        sys.exit(_builds(options.folder, names, options.jobs))
    if options.step == "page":
        from .stream_page import write

        print(f"written: {write(options.folder)}")
        return
    from .stream_times import timed

    for name in names:
        row = timed(options.folder, name, options.alone)
        if not options.alone:
            (options.folder / f"stream-{name}.times.json").write_text(json.dumps(row, indent=1))


def _builds(folder: Path, names: Sequence[str], jobs: int) -> bool:
    todo = [(n, s) for n in names for s in ((), *STREAMS[n].samples)]
    live: list[tuple[float, subprocess.Popen[bytes]]] = []
    failed = False
    while todo or live:
        while todo and len(live) < jobs:
            name, shape = todo.pop(0)
            command = [sys.executable, "-m", "benchmarks.gpu.stream", "one", str(folder), "--only",
                       name, *map(str, shape)]  # fmt: skip
            live.append((time.monotonic(), subprocess.Popen(command)))
        time.sleep(0.2)
        for begun, process in list(live):
            if process.poll() is None and time.monotonic() - begun > LIMIT:
                process.kill()
            if process.poll() is not None:
                failed |= process.wait() != 0
                live.remove((begun, process))
    return failed


def _options() -> argparse.Namespace:
    parser = step_parser("benchmarks.gpu.stream", __doc__, ("build", "time", "page", "one"),
                         "bert, vit")  # fmt: skip
    parser.add_argument("--alone", action="store_true", help="without torch.compile")
    return parser.parse_args()


if __name__ == "__main__":
    main()
