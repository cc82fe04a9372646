"""Files of a store, accessed by name through a descriptor of the folder."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator

from ...byoc.process import trust
from .kernel_file import Damaged

SUFFIX = ".so"
PART = ".part-"
KEY = re.compile(r"[0-9a-f]{16,64}")


def read(name: str, folder: int, most: int) -> bytes | Damaged | None:
    """Read a file that only this user can write; None if it does not exist."""
    try:
        return trust.read(name, folder, most)
    except FileNotFoundError:
        return None
    except trust.Untrusted as error:
        return Damaged(str(error))
    except OSError as error:
        return Damaged(error.strerror or type(error).__name__)


def write(name: str, folder: int, raw: bytes) -> None:
    """Write a file atomically, even if the process is killed."""
    part = f"{PART}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    number = os.open(part, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(raw)
            file.flush()
            # After a power failure the name must not exist without the bytes. Losing the name
            # is harmless.
            os.fsync(file.fileno())
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def files(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the entries; skips files that are removed meanwhile."""
    with os.scandir(folder) as listing:
        for file in listing:
            name, suffix = os.path.splitext(file.name)
            if suffix == SUFFIX and KEY.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    yield file.name, file.stat(follow_symlinks=False)


def sweep(folder: int, seconds: float) -> None:
    """Remove files that killed writers left behind."""
    before = time.time() - seconds
    with os.scandir(folder) as listing:
        for file in listing:
            if file.name.startswith(PART):
                with contextlib.suppress(OSError):
                    if file.stat(follow_symlinks=False).st_mtime < before:
                        os.unlink(file.name, dir_fd=folder)


def exists(name: str, folder: int) -> bool:
    """Return whether an open folder has an entry of a name; links are not followed."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def remove(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
