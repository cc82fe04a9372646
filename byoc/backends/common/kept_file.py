"""Files in the user's cache that take long to write: one process writes each, others wait for it.

A file has its digest beside it, so a damaged one is written again. Where the cache cannot be used,
as without a home folder, on a full disk or if other users can write it, the file is in a temporary
folder of this process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ....analysis.support.files.atomic_replace import replacing
from ....analysis.support.files.user_cache import VARIABLE, user_cache
from ....analysis.support.warn import warn
from ...codegen.compilers.toolchain import CompilerError
from ...process import trust
from ...process.temporary_folder import TemporaryFolder

#: The suffix of the file beside another with the digest of its content.
DIGEST = ".sha256"
#: The permissions that a file may have: those of its owner.
OWNER = 0o700
#: Files in the temporary folder that callers have, as the cache could not be used then.
_in_use: set[Path] = set()


def kept_file(folder: str, name: str, write: Callable[[Path], None]) -> Path:
    """Return the file of this name, from the cache or written now.

    Args:
        folder: The folder in the user's cache.
        name: The name of the file; it contains a digest of everything that the content depends on.
        write: Writes the content to an empty file.

    Raises:
        CompilerError: ``write`` raised it.
        OSError: The file can be written neither in the cache nor in a temporary folder.
    """
    try:
        return _kept(user_cache(folder) / name, write)
    except CompilerError:
        raise
    except (OSError, RuntimeError) as error:  # also without a home folder
        _warn(_reason(error, folder))
        file = _written(name, write)
        _in_use.add(file)
        return file


def _kept(file: Path, write: Callable[[Path], None]) -> Path:
    """The file in the cache. Raises ``OSError`` if the cache cannot be used."""
    if _is_kept(file):
        return file
    with _alone(file):
        if not _is_kept(file):
            own = _written(file.name, write)
            with replacing(file) as part:
                shutil.copyfile(own, part)
                part.chmod(own.stat().st_mode & OWNER)
            with replacing(_digest_of(file)) as part:
                part.write_text(_digest(file.read_bytes()), encoding="ascii")
            if own not in _in_use:
                own.unlink()
    return file


def _written(name: str, write: Callable[[Path], None]) -> Path:
    """The file in the temporary folder of this process, written once."""
    with _lock(name):
        file = _temporary(os.getpid()).path / name
        if not file.exists():
            with replacing(file) as part:
                write(part)
        return file


@functools.cache
def _lock(name: str) -> threading.Lock:
    """The lock of a file: writing one may need another."""
    return threading.Lock()


@functools.cache
def _temporary(process: int) -> TemporaryFolder:
    """The folder of a process: a fork has its own."""
    return TemporaryFolder("opinfo-kept-")


def _reason(error: OSError | RuntimeError, folder: str) -> str:
    if isinstance(error, trust.Untrusted) or not isinstance(error, OSError):
        return str(error)
    return f"{user_cache(folder)}: {error.strerror or error}"


@functools.cache
def _warn(reason: str) -> None:
    """Warn once of each reason."""
    warn(f"compiled code is kept for this process only: {reason}; set {VARIABLE} to a folder that "
         "only you can write")  # fmt: skip


def _is_kept(file: Path) -> bool:
    """Whether the file is there, with the content that was written."""
    with trust.folder(file.parent, create=True) as within:
        try:
            content = trust.read(file.name, within)
            digest = trust.read(_digest_of(file).name, within)
        except FileNotFoundError:
            return False
    return digest == _digest(content).encode()


def _digest_of(file: Path) -> Path:
    return file.with_name(file.name + DIGEST)  # x.o and x.so have one each


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """One process at a time writes a file; the system ends the lock of one that dies."""
    try:
        import fcntl
    except ImportError:  # Windows: each process writes it
        yield
        return
    path = file.with_name(f"{file.name}.lock")
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
