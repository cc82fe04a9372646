"""Only regular files are read: a pipe would be waited for, a device has no end."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from opinfo.jit.runtime import library_table as table


@pytest.mark.parametrize("command", [
    ("inspect", "@.so"), ("inspect", "@.json"), ("tune", "@.json", "--database", "@db"),
])  # fmt: skip
def test_a_pipe_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    for suffix in (".so", ".json"):
        os.mkfifo(tmp_path / f"x{suffix}")
    words = [w.replace("@", str(tmp_path / "x")) for w in command]
    done = subprocess.run(
        [sys.executable, "-m", "opinfo", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == f"opinfo: {words[1]}: not a regular file\n"


def test_a_pipe_is_refused_as_plan_and_as_database(tmp_path: Path) -> None:
    from opinfo.byoc.dispatching.choice.plan_file import DispatchPlan
    from opinfo.byoc.measure.database import Database

    os.mkfifo(path := tmp_path / "x.json")
    for read in (DispatchPlan.load, Database):
        with pytest.raises(OSError, match="not a regular file"):
            read(path)


def _library(path: Path, length: int, names: int) -> None:
    """A sparse file with a section `.opinfo` and a table of names, of these lengths."""
    header = struct.pack("<6s34xQ10xHHH", b"\x7fELF\x02\x01", 64, 64, 2, 0)
    first = struct.pack("<I20xQQ24x", 7, 192, names)
    second = struct.pack("<I20xQQ24x", 0, 200, length)
    path.write_bytes(header.ljust(64, b"\0") + first + second + b".opinfo\0")
    os.truncate(path, (60 << 30) + 4096)


@pytest.mark.parametrize(("length", "names"), [(60 << 30, 8), (8, 60 << 30)])
def test_a_section_is_bounded(tmp_path: Path, length: int, names: int) -> None:
    _library(tmp_path / "x.so", length, names)
    with pytest.raises(table.NoTable, match="expected at most"):
        table.read(tmp_path / "x.so")
