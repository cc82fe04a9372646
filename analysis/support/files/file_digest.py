"""Digests of files that other programs may change or remove meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def add_file(digest: Any, name: str, path: Path) -> None:
    """Add a file's name and content to a digest.

    A file that cannot be read, such as the link that an editor keeps beside a changed file, is
    added without content: what cannot be read cannot be imported.

    Args:
        digest: An object of `hashlib`.
        name: The name, the same wherever the file is installed.
        path: The file.
    """
    try:
        raw = path.read_bytes()
    except OSError:
        raw = b""
    digest.update(os.fsencode(f"{name}\0{len(raw)}\0") + raw)
