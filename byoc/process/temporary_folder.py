"""Temporary folders that only the process that created them removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from . import trust

#: The file whose lock a process holds while it uses the folder.
LOCK = ".lock"
#: The prefix of all folder names.
PREFIX = "opinfo-"


class TemporaryFolder:
    """A new folder; it is deleted by `remove`, with this object, or when this process ends.

    (`tempfile.TemporaryDirectory` is also deleted when a forked process ends.) The folders of
    killed processes are deleted when the next folder is created. Raises `Untrusted` if other users
    could replace it.
    """

    def __init__(self, prefix: str) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.remove = weakref.finalize(self, _remove, self.path, _locked(self.path), os.getpid())
        try:
            trust.check_temporary(self.path)
        except BaseException:
            self.remove()
            raise


def lacks_room(path: Path) -> str | None:
    """Why a mebibyte cannot be written into a folder; None if it can."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(1 << 20))
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock; the file gets its name afterwards."""
    number = os.open(path / f"{LOCK}-new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(path / f"{LOCK}-new", path / LOCK)
    except OSError:  # a file system without locks
        os.close(number)
        return None
    return number


def _sweep() -> None:
    """Remove the folders of killed processes, whose locks are free."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _abandoned(Path(entry.path))


def _abandoned(path: Path) -> None:
    if os.lstat(path).st_uid != os.geteuid():
        return
    number = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(number)


def _remove(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)
