"""Folders of files that can be made again, with a limit on all of them together."""

from __future__ import annotations

import os
from pathlib import Path


def forget_oldest(folder: Path, most: int) -> None:
    """Remove the files that were used longest ago until at most `most` bytes are left.

    Raises:
        OSError: The folder cannot be read.
    """
    with os.scandir(folder) as entries:
        states = [(s.st_mtime_ns, s.st_size, Path(f.path)) for f in entries for s in (f.stat(),)]
    total = 0
    for _, size, path in sorted(states, reverse=True):
        total += size
        if total > most:
            path.unlink(missing_ok=True)
