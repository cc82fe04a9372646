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

    Raises:
        OSError: The path is a folder, or its folder does not exist or cannot be written. One of
            the temporary file, or without a name, as of a full disk, has the name of the path.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: folder {path.parent} does not exist")
    number, name = tempfile.mkstemp(prefix=f".{path.name[:SHOWN]}-", dir=path.parent)
    os.close(number)
    part = Path(name)
    try:
        yield part
        part.replace(path)
    except OSError as error:
        names = {str(n) for n in (error.filename, error.filename2) if n is not None}
        if error.errno is None or (names and name not in names):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)
