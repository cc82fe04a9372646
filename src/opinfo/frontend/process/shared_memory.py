"""Memory that the client of the reader shares with the fork that reads a file.

Through pipes, a model of 1 GB is copied a dozen times, in pieces of 64 KiB. The client makes the
memory, and gives the reader its path, so that it lives as long as the client needs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

#: What a message may be made of: objects with a length and a buffer of bytes.
Parts = Sequence[Any]


class SharedMemory:
    """Memory that another process may write to by its path; it takes space where it is written."""

    def __init__(self, size: int) -> None:
        """Raises ``OSError`` where the system has no such memory."""
        if not hasattr(os, "memfd_create"):
            raise OSError("memory without a file needs Linux")
        self._file = os.memfd_create("opinfo", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.size, self.path = size, f"/proc/{os.getpid()}/fd/{self._file}"
        try:
            os.ftruncate(self._file, size)
        except BaseException:
            self.close()
            raise

    def content(self, length: int) -> mmap.mmap:
        """Return the first bytes, at least one; nobody can make the memory shorter any more.

        It may be written to, which the memory itself does not see: numpy shares no other arrays.
        """
        os.ftruncate(self._file, length)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return mmap.mmap(self._file, length, access=mmap.ACCESS_COPY)

    def close(self) -> None:
        """Let go of the memory; what `content` returned stays."""
        os.close(self._file)


@contextlib.contextmanager
def opened(place: tuple[str, int] | None) -> Iterator[mmap.mmap | None]:
    """Map memory of a path and a size for writing; None if that is not possible."""
    try:
        memory = None if place is None else _mapped(*place)
    except (OSError, ValueError, OverflowError):
        memory = None
    try:
        yield memory
    finally:
        if memory is not None:
            memory.close()


def _mapped(path: str, size: int) -> mmap.mmap:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(file, size)
    finally:
        os.close(file)


def written(parts: Parts, memory: mmap.mmap | None) -> int | None:
    """Write a message to memory and return its length; None without memory or if it is longer."""
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    length = sum(len(view) for view in views)
    if memory is None or not 0 < length <= len(memory):
        return None
    place = 0
    for view in views:
        memory[place : place + len(view)] = view
        place += len(view)
    return length
