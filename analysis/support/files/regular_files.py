"""Read regular files only: a pipe or a device may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | Path) -> BinaryIO:
    """Return a file opened for reading; links are followed.

    Raises:
        OSError: The path is not a regular file but a folder, a pipe, a socket or a device.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def content(path: str | Path, most: int | None = None) -> bytes:
    """Return all bytes of a regular file.

    Args:
        path: The file.
        most: The largest size in bytes.

    Raises:
        OSError: As `open_regular` does, or the file is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            text = f"it has {size} bytes, expected at most {most}"
            raise OSError(errno.EFBIG, text, str(path))
        return file.read()
