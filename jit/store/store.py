"""Compiled kernels on disk, shared by any number of processes and threads.

Each kernel is one file, named by its key. It is written under a temporary name and renamed, so that
a name always denotes a complete file, and verified to the last byte before use. Readers and writers
need no locks; a lease (`leases`) keeps two processes from compiling the same kernel. Modification
times record the last use.

The folder is opened by `byoc.process.trust` for each use, and its files are accessed through the
descriptor. A problem with the folder (full, read-only, not private) causes one warning, and kernels
are then compiled as if there were no store.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...analysis.support.warn import warn
from ...byoc.process import trust
from . import default_folder, leases, store_files
from .kernel_file import Damaged, opened, packed
from .leases import Lease
from .listing import about_of
from .store_files import KEY, SUFFIX

#: Seconds after which the writer of a temporary file is assumed to be dead.
ABANDONED = 3600.0
#: The same for `clear`; a live writer takes milliseconds.
PATIENCE = 60.0


@dataclass(frozen=True)
class StoreEntry:
    """An entry in a listing. ``used`` is the time of the last use, in seconds since 1970."""

    key: str
    size: int
    used: float
    about: Mapping[str, str]


class KernelStore:
    """Compiled kernels on disk; the least recently used are removed first.

    Args:
        folder: The folder; by default ``$OPINFO_CACHE`` or the platform's cache folder. Only its
            owner may have write access.
        max_bytes: Limit on the total size of kernels in bytes.
        max_count: Limit on the number of kernels.

    Raises:
        TypeError: The folder is not a path.
        ValueError: A limit is not positive, or the folder is empty or has a NUL character.
    """

    def __init__(
        self, folder: str | Path | None = None, max_bytes: int = 256 << 20, max_count: int = 4096
    ) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_count", max_count)):
            if not bound > 0:
                raise ValueError(f"KernelStore: {name} must be positive, got {bound!r}")
        if folder is not None and not isinstance(folder, (str, Path)):
            raise TypeError(f"KernelStore: folder: expected a path, got {folder!r:.80}")
        if folder == "":  # as of a variable without a value; it would be the current folder
            raise ValueError("KernelStore: folder: expected a path, got an empty one")
        self.folder = default_folder.default_folder() if folder is None else Path(folder)
        if "\0" in str(self.folder):
            raise ValueError(
                f"KernelStore: folder: a path has no NUL character, got {folder!r:.80}"
            )
        self.max_bytes, self.max_count = max_bytes, max_count
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def refusal(self) -> str | None:
        """Say why the folder is not used; None if it is usable or does not exist yet."""
        try:
            return trust.refusal(self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self.folder}: {error.strerror}"

    def get(self, key: str) -> Path | None:
        """Return the path of a verified library; None without an intact entry.

        Another process may replace the file before it is loaded; `copy` avoids that.
        """
        return None if self._verified(key) is None else self._path(key)

    def copy(self, key: str, to: Path) -> bool:
        """Write the verified library of a key to a new file; return whether there is one.

        In a private folder, no other process can replace or truncate the copy while it is mapped.

        Args:
            key: The key of the kernel.
            to: The file to write.

        Raises:
            OSError: The copy cannot be written.
        """
        raw = self._verified(key)
        if raw is not None:
            to.write_bytes(raw)
        return raw is not None

    def _verified(self, key: str) -> bytes | None:
        name = self._path(key).name
        with self._opened() as folder:
            if folder is None:
                return None
            raw = store_files.read(name, folder, self.max_bytes)
            if raw is None:
                return None
            description = raw if isinstance(raw, Damaged) else opened(raw, key)
            if isinstance(raw, Damaged) or isinstance(description, Damaged):
                self._discard(name, folder, getattr(description, "reason", ""))
                return None
            with contextlib.suppress(OSError):  # read-only, or removed meanwhile
                now = time.time_ns()
                os.utime(name, ns=(now, now), dir_fd=folder, follow_symlinks=False)
        return raw

    def discard(self, key: str, reason: str) -> None:
        """Remove a kernel that does not work, with a warning that gives the reason."""
        name = self._path(key).name
        with self._opened() as folder:
            if folder is not None and store_files.exists(name, folder):
                self._discard(name, folder, reason)

    def put(
        self, key: str, file: str | Path, about: Mapping[str, str] | None = None
    ) -> Path | None:
        """Store a library and return its path; None, with a warning, if it cannot be stored.

        Args:
            key: The kernel's key.
            file: The library.
            about: A description for listings: ``function``, ``shape``, ``target``.

        Raises:
            OSError: The library cannot be read.
        """
        path, raw = self._path(key), packed(key, about or {}, Path(file).read_bytes())
        if len(raw) > self.max_bytes:
            self._warn(
                f"a kernel of {len(raw)} bytes exceeds the limit of the store "
                f"({self.max_bytes} bytes) and is not stored"
            )
            return None
        with self._opened(create=True) as folder:
            if folder is None:
                return None
            try:
                store_files.write(path.name, folder, raw)
            except OSError as error:
                self._warn_unusable(f"{self.folder}: {error.strerror or type(error).__name__}")
                return None
            self._trim(path.name, folder)
        return path

    def lease(self, key: str) -> Lease | None:
        """Lease the right to compile a kernel; None while another holder has it.

        It never waits. Without a usable folder, everyone gets the right.
        """
        with self._opened(create=True) as folder:
            return Lease() if folder is None else leases.lease(key, folder)

    def ls(self) -> list[StoreEntry]:
        """List the entries, most recently used first; raises ``OSError`` if that fails."""
        with self._opened() as folder:
            if folder is None:
                return []
            files = sorted(store_files.files(folder), key=lambda f: -f[1].st_mtime_ns)
            return [StoreEntry(n.removesuffix(SUFFIX), s.st_size, s.st_mtime, about_of(n, folder))
                    for n, s in files]  # fmt: skip

    def clear(self, older_than: float = 0.0) -> list[Path]:
        """Remove entries unused for ``older_than`` seconds; return the removed files.

        Raises:
            OSError: The folder cannot be read.
        """
        before = time.time() - older_than
        with self._opened() as folder:
            if folder is None:
                return []
            found = store_files.files(folder)
            removed = [n for n, s in found if not older_than or s.st_mtime < before]
            for name in removed:
                store_files.remove(name, folder)
            store_files.sweep(folder, max(min(older_than, ABANDONED), PATIENCE))
        return [self.folder / name for name in removed]

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"KernelStore: a key is 16 to 64 hexadecimal digits, got {key!r}")
        return self.folder / f"{key}{SUFFIX}"

    @contextlib.contextmanager
    def _opened(self, create: bool = False) -> Iterator[int | None]:
        """Open the folder; None if it does not exist, or with a warning if it is unusable."""
        try:
            # Catch errors of opening only, not of the body of the with statement.
            number = (stack := contextlib.ExitStack()).enter_context(
                trust.folder(self.folder, create)
            )
        except FileNotFoundError:
            yield None
            return
        except trust.Untrusted as error:
            self._warn_unusable(str(error))
            yield None
            return
        except OSError as error:
            self._warn_unusable(f"{self.folder}: {error.strerror or type(error).__name__}")
            yield None
            return
        with stack:
            yield number

    def _trim(self, newest: str, folder: int) -> None:
        """Evict entries to respect the limits, but never the newest."""
        with contextlib.suppress(OSError):
            store_files.sweep(folder, ABANDONED)
            files = sorted(store_files.files(folder), key=lambda f: f[1].st_mtime_ns)
            size, count = sum(s.st_size for _, s in files), len(files)
            for name, status in files:
                if size <= self.max_bytes and count <= self.max_count:
                    return
                if name != newest:
                    store_files.remove(name, folder)
                    size, count = size - status.st_size, count - 1

    def _discard(self, name: str, folder: int, reason: str) -> None:
        self._warn(f"{self.folder / name} is ignored and removed: {reason}")
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)

    def _warn_unusable(self, why: str) -> None:
        self._warn(f"kernels are not stored: {why}")

    def _warn(self, text: str) -> None:
        """Warn once for each text."""
        with self._lock:
            new = text not in self._warned
            self._warned.add(text)
        if new:
            warn(text)
