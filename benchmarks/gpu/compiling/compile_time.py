"""Compile models one by one, with an empty cache and with the one that the first build left.

python -m benchmarks.gpu compile_time DIR [--only NAME ...] [--dtype DTYPE ...] [--page]
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES, table

#: Seconds after which a build is ended.
LIMIT = 300
#: Seconds that a stage takes to be listed.
LISTED = 0.5
HEAD = """# Compile times for a GPU

Written by `python -m benchmarks.gpu compile_time DIR --page`: seconds from the start of a process
to the exported library, for a program of `torch.export`, one model at a time. As in `opinfo
compile`, torch is only in the process that reads programs. **Cold** is with an empty cache.
**Kept** is a second process with the cache of the first: the libraries' plans are chosen, the
generated code is compiled, and the program was read before. **Plans** is a third one that has
only the libraries' plans and the object of cuDNN's frontend, as for new weights. **Call** is the
first call of the library in a process of its own, with plans kept, then the second one.
"""
#: Folders of the cache that a program's own files are in.
OWN = ("programs", "code")
COLUMNS = ("model", "dtype", "cold", "plans", "kept", "call", "stages of the kept one, s",
           "offloaded")  # fmt: skip


def compile_times(folder: Path, names: Sequence[str], dtypes: Sequence[str], page: bool) -> bool:
    """Time builds and first calls; return whether one failed.

    Each model's row is in DIR/NAME-DTYPE.compile.json.
    """
    rows = []
    for dtype, name in itertools.product(dtypes, names):
        row = _row(folder, name, dtype)
        (folder / f"{name}-{dtype}.compile.json").write_text(json.dumps(row, indent=1))
        print("ROW", json.dumps(row), flush=True)
        rows.append(row)
    if page:
        print(f"written: {_write(rows)}")
    return any("error" in r for r in rows)


def _row(folder: Path, name: str, dtype: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "dtype": dtype, "machine": _machine()}
    program = folder / f"{name}-{dtype}.pt2"
    if not program.exists():
        _run("export_program", str(program), name, dtype)
    cache = Path(tempfile.mkdtemp(prefix="opinfo-cold-"))
    environment = {**os.environ, "OPINFO_CACHE": str(cache)}
    library = folder / f"{name}-{dtype}.so"
    try:
        for which in ("cold", "kept", "plans"):
            for part in OWN if which == "plans" else ():
                shutil.rmtree(cache / part, ignore_errors=True)
            row[which] = _compiled(program, library, environment)
            given = json.dumps(row[which].pop("inputs"))
            row[which]["choices"] = len(list((cache / "cudnn").glob("*")))
            if which == "kept":
                row["call"] = _run("compiling.first_call", str(library), given, env=environment)
            library.unlink(missing_ok=True)
    except RuntimeError as error:
        row["error"] = str(error)[-400:]
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return row


def _compiled(program: Path, library: Path, environment: Any) -> dict[str, Any]:
    begun = time.time()
    words = (str(program), str(library))
    out = _run("compiling.compile_program", *words, env=environment)
    return {**out, "seconds": round(time.time() - begun, 1)}


def _run(module: str, *words: str, env: Any = None) -> dict[str, Any]:
    """Run a module of `benchmarks.gpu` in its own process; return its last line, of JSON."""
    command = [sys.executable, "-m", f"benchmarks.gpu.{module}", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{module} took more than {LIMIT} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"{module}: {done.stderr.strip()}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _machine() -> str:
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{device}, {os.cpu_count()} cores"


def _write(rows: Sequence[dict[str, Any]]) -> Path:
    machines = ", ".join(dict.fromkeys(row["machine"] for row in rows))
    path = PAGES / "gpu-compile.md"
    text = table(COLUMNS, [_cells(r) for r in rows])
    path.write_text(f"{HEAD}\n{machines}.\n\n{text}\n", encoding="utf-8")
    return path


def _cells(row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [
            f"`{row['name']}`",
            row["dtype"],
            "",
            "",
            "",
            "",
            "",
            " ".join(row["error"].split())[-200:],
        ]
    stages = sorted(row["kept"]["stages"].items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {spent:.1f}" for name, spent in stages if spent >= LISTED)
    times = [f"{row[which]['seconds']:.0f}" for which in ("cold", "plans", "kept")]
    calls = f"{row['call']['first']:.1f}, {row['call']['second']:.3f}"
    return [f"`{row['name']}`", row["dtype"], *times, calls, shown, row["kept"]["summary"]]
