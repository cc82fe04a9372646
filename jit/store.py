"""Compiled kernels on disk, shared by any number of processes and threads.

A file a kernel, named by its key. It is written under another name and renamed, so that a name is
of a whole file or of none; it is verified to the last byte before its path is handed out. Nothing
is locked: whoever loses a race builds once more. Modification times say when an entry was used.

Whatever goes wrong with the folder (full, read-only, not private) is told in one warning, and
kernels are compiled as if there were no store.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import private
from .entry import Damaged, opened, packed
from .listing import about_of

SUFFIX = ".so"
PART = ".part-"
_KEY = re.compile(r"[0-9a-f]{16,64}")
#: Seconds after which a file that is still being written is one whose writer was killed.
ABANDONED = 3600.0
#: The same when everything is to go: a writer takes milliseconds.
PATIENCE = 60.0


@dataclass(frozen=True)
class Row:
    """An entry, for people. ``used``: when it was last asked for, in seconds since 1970."""

    key: str
    size: int
    used: float
    about: Mapping[str, str]


class KernelStore:
    """At most ``max_bytes`` and ``max_count`` kernels: those that were not used longest go first.

    Each is kept under the key of :func:`.kernel_key.key`.

    ``folder`` None: ``$OPINFO_CACHE``, or the platform's folder for caches. Raises ``ValueError``
    for bounds that are not positive.
    """

    def __init__(
        self, folder: str | Path | None = None, max_bytes: int = 256 << 20, max_count: int = 4096
    ) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_count", max_count)):
            if not bound > 0:
                raise ValueError(f"KernelStore: {name} must be positive, got {bound!r}")
        self.folder = private.default_folder() if folder is None else Path(folder)
        self.max_bytes, self.max_count = max_bytes, max_count
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._private = False

    def refusal(self) -> str | None:
        """Why nothing is read from or written to the folder; None if it is, or is not there yet."""
        if self._private:
            return None
        try:
            why = private.refusal(self.folder)
        except FileNotFoundError:
            return None
        except OSError as e:
            return f"{self.folder}: {e.strerror}"
        self._private = why is None
        return why

    def get(self, key: str) -> Path | None:
        """The library of a key, verified; None where there is none that is whole."""
        path = self._path(key)
        if self._is_refused():
            return None
        try:
            raw = _read(path, self.max_bytes)
        except FileNotFoundError:
            return None
        except OSError as e:
            raw = Damaged(e.strerror or type(e).__name__)
        found = raw if isinstance(raw, Damaged) else opened(raw, key)
        if isinstance(found, Damaged):
            self._discard(path, found.reason)
            return None
        with contextlib.suppress(OSError):  # read-only, or it vanished just now
            now = time.time_ns()
            os.utime(path, ns=(now, now))
        return path

    def discard(self, key: str, reason: str) -> None:
        """Remove a kernel that turned out not to work; the reason is told in a warning."""
        path = self._path(key)
        if not self._is_refused() and path.exists():
            self._discard(path, reason)

    def put(
        self, key: str, file: str | Path, about: Mapping[str, str] | None = None
    ) -> Path | None:
        """Keep a library; None, after a warning, where it cannot be kept.

        ``about`` is shown to people: ``function``, ``shape``, ``target``. Raises ``OSError`` if the
        library cannot be read.
        """
        path, raw = self._path(key), packed(key, about or {}, Path(file).read_bytes())
        if len(raw) > self.max_bytes:
            self._warn(f"a kernel of {len(raw)} bytes is more than all may have: it is not kept")
            return None
        try:
            private.create(self.folder)
            if self._is_refused():
                return None
            self._write(path, raw)
        except OSError as e:
            self._warn(f"kernels are not kept: {self.folder}: {e.strerror or type(e).__name__}")
            return None
        self._trim(path)
        return path

    def ls(self) -> list[Row]:
        """What is kept, the last used first. Raises ``OSError`` if the folder cannot be read."""
        found = sorted(self._files(), key=lambda f: -f[1].st_mtime_ns)
        return [Row(p.name.removesuffix(SUFFIX), s.st_size, s.st_mtime, about_of(p))
                for p, s in found]  # fmt: skip

    def clear(self, older_than: float = 0.0) -> list[Path]:
        """Remove what was not used for these seconds; the files that went. Raises ``OSError``."""
        before = time.time() - older_than
        gone = [p for p, s in self._files() if not older_than or s.st_mtime < before]
        for path in gone:
            path.unlink(missing_ok=True)
        self._sweep(max(min(older_than, ABANDONED), PATIENCE))
        return gone

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"KernelStore: a key is 16 to 64 hexadecimal digits, got {key!r}")
        return self.folder / f"{key}{SUFFIX}"

    def _is_refused(self) -> bool:
        why = self.refusal()
        if why is not None:
            self._warn(f"kernels are not kept: {why}")
        return why is not None

    def _write(self, path: Path, raw: bytes) -> None:
        number, part = tempfile.mkstemp(prefix=PART, dir=self.folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(raw)
                file.flush()
                # Of a machine that loses power the name must not come before the bytes; the name
                # itself may be lost.
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The entries; files that others remove meanwhile are passed over."""
        if not self.folder.exists():
            return
        with os.scandir(self.folder) as found:
            for file in found:
                name, suffix = os.path.splitext(file.name)
                if suffix == SUFFIX and _KEY.fullmatch(name):
                    with contextlib.suppress(FileNotFoundError):
                        yield Path(file.path), file.stat(follow_symlinks=False)

    def _trim(self, newest: Path) -> None:
        """Evict down to the bounds; never what was put just now."""
        with contextlib.suppress(OSError):
            self._sweep(ABANDONED)
            found = sorted(self._files(), key=lambda f: f[1].st_mtime_ns)
            size, count = sum(s.st_size for _, s in found), len(found)
            for path, s in found:
                if size <= self.max_bytes and count <= self.max_count:
                    return
                if path != newest:
                    path.unlink(missing_ok=True)
                    size, count = size - s.st_size, count - 1

    def _sweep(self, seconds: float) -> None:
        """Remove what killed writers left."""
        if not self.folder.exists():
            return
        before = time.time() - seconds
        with os.scandir(self.folder) as found:
            for file in found:
                if file.name.startswith(PART):
                    with contextlib.suppress(OSError):
                        if file.stat(follow_symlinks=False).st_mtime < before:
                            os.unlink(file.path)

    def _discard(self, path: Path, reason: str) -> None:
        self._warn(f"{path} is ignored and removed: {reason}")
        with contextlib.suppress(OSError):
            path.unlink()

    def _warn(self, text: str) -> None:
        """Each thing once."""
        with self._lock:
            new = text not in self._told
            self._told.add(text)
        if new:
            warnings.warn(text, stacklevel=3)


def _read(path: Path, most: int) -> bytes | Damaged:
    """The bytes of a regular file of this user; no link is followed, no pipe waited for."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if not private.owned(found):
            return Damaged("it is not a file that only this user can write")
        if found.st_size > most:
            return Damaged(f"it has {found.st_size} bytes")
        return file.read(found.st_size)
