"""Damages of a file in a kernel store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], object]


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[5_000] ^= 4
    path.write_bytes(raw)


def replace_by_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
