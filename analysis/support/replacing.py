"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside a path, which takes its place at the end; it goes where the body raises.

    A process may have what is there now mapped: that stays as it is.
    """
    number, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(number)
    part = Path(name)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
