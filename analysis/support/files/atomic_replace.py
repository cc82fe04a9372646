"""Replace files atomically: a reader sees the old or the new file, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Characters of the file's name in that of the temporary one, which must not be too long.
SHOWN = 32


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end; it is deleted if the body raises.

    A process that has the old file mapped keeps its content.
    """
    number, name = tempfile.mkstemp(prefix=f".{path.name[:SHOWN]}-", dir=path.parent)
    os.close(number)
    part = Path(name)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
