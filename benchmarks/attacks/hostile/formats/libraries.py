"""Shared libraries and stored kernels: constructors that run, tables that are damaged."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from opinfo.jit.compile.call_site_code import literal
from opinfo.jit.runtime.library_table import FORMAT
from opinfo.jit.store.kernel_file import packed

from .case import Case, damaged

TABLE = {"format": FORMAT, "target": "llvm", "functions": {}, "sites": [],
         "ranges": {"n": [1, 8, 1]}, "signatures": [],
         "told": [["f", "jit", "none", ""]]}  # fmt: skip
TABLES = (
    "", "[]", "1", "null", "[" * 100_000, '{"format": 5}', json.dumps({**TABLE, "format": "x"}),
    json.dumps({**TABLE, "told": [[1, 2, 3, 4]]}), json.dumps({**TABLE, "told": [["a"]]}),
    json.dumps({**TABLE, "ranges": {"n": [[], "x"]}}), json.dumps({**TABLE, "ranges": []}),
    json.dumps({**TABLE, "target": {"a": 1}}), json.dumps({**TABLE, "told": [["\x1b[31m\n"] * 4]}),
)  # fmt: skip


def library(folder: Path, mark: Path, table: str | None) -> bytes:
    """Build a library whose constructor writes the mark, with or without a table."""
    text = f"#include <cstdio>\n__attribute__((constructor)) void run() {{\n" \
        f'  if (FILE* f = fopen("{mark}", "w")) fclose(f);\n}}\n'  # fmt: skip
    if table is not None:
        text += '__attribute__((section(".opinfo"), used)) const char told[] = ' + literal(table)
        text += ";\n"
    source, out = folder / "evil.cc", folder / "evil.so"
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", out, source], check=True)
    return out.read_bytes()


def cases(rng: random.Random, mark: Path, count: int, folder: Path) -> Iterator[Case]:
    """Yield libraries with and without opinfo's table, then random changes of their bytes."""
    ours = library(folder, mark, json.dumps(TABLE))
    yield Case("a constructor", ".so", library(folder, mark, None))
    yield Case("a constructor and a table", ".so", ours)
    for table in TABLES:
        yield Case(f"table {table[:40]}", ".so", library(folder, mark, table))
    yield Case("no library", ".so", b"hello")
    yield Case("empty", ".so", b"")
    for k in range(count):
        if k % 2:
            yield Case("bytes", ".so", damaged(rng, ours))
            continue
        header = bytearray(ours)  # the header, or the section headers at the end
        place = rng.randrange(64) if k % 4 else rng.randrange(len(ours) - 64 * 30, len(ours))
        header[place] = rng.randrange(256)
        yield Case("headers", ".so", bytes(header))


def entries(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield files of a kernel store, for `opinfo cache ls`."""
    key = "k" * 64
    good = packed(key, {"function": "f", "shape": "n=1", "target": "llvm"}, b"\x7fELF" * 50)
    yield Case("as it should be", ".entry", good)
    for _ in range(count):
        yield Case("bytes", ".entry", damaged(rng, good))
        tail = bytearray(good)
        tail[-rng.randint(1, 200)] = rng.randrange(256)
        yield Case("footer", ".entry", bytes(tail))
