"""Leases: of the processes that share a store, one compiles a kernel and the others wait for it.

A lease is a lock on one byte of a file in the store's folder, at an offset that the key determines.
The system releases it when its holder ends, however it ends. Keys with the same offset exclude each
other, which only delays one of them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct

#: The file whose bytes are locked; it stays empty.
NAME = ".leases"
#: Hexadecimal digits of a key that give the offset, which has 63 bits.
_DIGITS = 15
#: ``struct flock``: type, whence, start, length, process (0 for locks of open files).
_LOCK = struct.Struct("@hhqqi4x")
_TAKEN = {errno.EAGAIN, errno.EACCES}


class Lease:
    """The right to compile a kernel, until it is released.

    Without a lock (the folder or the platform has none), every process gets the right: kernels are
    then compiled more than once, and nobody waits.
    """

    def __init__(self, number: int | None = None, start: int = 0) -> None:
        self._number, self._start = number, start

    def release(self) -> None:
        """Let another process have the kernel; it looks for the kernel in the store first."""
        number, self._number = self._number, None
        if number is None:
            return
        with contextlib.suppress(OSError):  # a forked process may keep the file open: unlock it
            _set(number, fcntl.F_UNLCK, self._start)
        os.close(number)

    def __del__(self) -> None:
        self.release()


def lease(key: str, folder: int) -> Lease | None:
    """Lease a key in a folder; None if another holder has it. It never waits."""
    if not hasattr(fcntl, "F_OFD_SETLK"):  # locks of processes would be lost when any file closes
        return Lease()
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        number = os.open(NAME, flags, 0o600, dir_fd=folder)
    except OSError:
        return Lease()
    start = int(key[:_DIGITS], 16)
    try:
        _set(number, fcntl.F_WRLCK, start)
    except OSError as error:
        os.close(number)
        return None if error.errno in _TAKEN else Lease()
    return Lease(number, start)


def _set(number: int, kind: int, start: int) -> None:
    fcntl.fcntl(number, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, start, 1, 0))
