"""Output files of a command: checked before any work starts, and written atomically.

A pipe is opened with the check, and stays open: opening it again would wait for a reader, and a
reader takes closing it for the end.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ..run.exit_status import UserError, reason_of


@dataclass(frozen=True)
class Output:
    """A writable file; messages name it by its option. ``pipe`` is a named pipe that is open."""

    option: str
    path: Path
    pipe: BinaryIO | None = None

    def __str__(self) -> str:
        return f"{self.option} {self.path}"

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, also one that does not exist yet."""
        return not _special(self.path)

    def write(self, text: str) -> None:
        """Write the file; raises `UserError` if that fails."""
        self.fill(lambda path: path.write_text(text, encoding="utf-8"))

    def fill(self, make: Callable[[Path], object]) -> None:
        """Let ``make`` write a temporary file, and move it here; raises `UserError`.

        A device or a pipe is written to directly.
        """
        with _refusing(self):
            special = _special(self.path)
            folder = None if special else self.path.resolve().parent
            with tempfile.TemporaryDirectory(prefix=".opinfo-", dir=folder) as name:
                new = Path(name) / self.path.name
                new.touch()
                mode = new.stat().st_mode
                make(new)
                if special:
                    with new.open("rb") as source, self.pipe or self.path.open("wb") as target:
                        shutil.copyfileobj(source, target)
                    return
                new.chmod(new.stat().st_mode | mode)
                os.replace(new, self.path.resolve())


def output(option: str, path: Path, *inputs: Path | None) -> Output:
    """Return an output that can be created or replaced; raises `UserError` otherwise."""
    file = Output(option, path)
    _check_file(file, inputs)
    if not path.parent.exists():
        raise UserError(f"{file}: folder {path.parent} does not exist")
    with _refusing(file):
        _try(path)
        return replace(file, pipe=_opened(path))


def optional(option: str, path: Path | None, *inputs: Path | None) -> Output | None:
    """Return `output`, or None without the option."""
    return None if path is None else output(option, path, *inputs)


def appended(option: str, path: Path | None, *inputs: Path | None) -> Output | None:
    """Return a file to append to, creating its folder; raises `UserError`."""
    if path is None:
        return None
    file = Output(option, path)
    _check_file(file, inputs)
    with _refusing(file):
        path.parent.mkdir(parents=True, exist_ok=True)
        _try(path)
    return file


def folder(option: str, path: Path) -> None:
    """Create a folder; raises `UserError` if that fails."""
    output_folder = Output(option, path)
    if path.exists() and not path.is_dir():
        raise UserError(f"{output_folder}: is a file, expected a folder")
    with _refusing(output_folder):
        path.mkdir(parents=True, exist_ok=True)
        _try_folder(path)


def distinct(*outputs: Output | None) -> None:
    """Raise `UserError` if two outputs are the same file."""
    seen: dict[Path, Output] = {}
    for file in filter(None, outputs):
        if _special(file.path):
            continue
        first = seen.setdefault(file.path.resolve(), file)
        if first is not file:
            raise UserError(f"{file}: {first.option} writes the same file")


def _check_file(file: Output, inputs: tuple[Path | None, ...]) -> None:
    path = file.path
    if path.is_dir():
        raise UserError(f"{file}: is a folder, expected a file")
    for source in inputs:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise UserError(f"{file}: would overwrite an input")


def _try(path: Path) -> None:
    """Raise ``OSError`` if a file cannot be created or written, without changing anything."""
    if path.exists():
        if not os.access(path, os.W_OK):
            raise PermissionError(13, os.strerror(13))
        if _special(path):
            return
    else:
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        path.resolve().unlink()
    _try_folder(path.resolve().parent)


def _try_folder(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".opinfo-", dir=path):
        pass


def _special(path: Path) -> bool:
    """Return whether a path is a device, a pipe or a socket."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _opened(path: Path) -> BinaryIO | None:
    """Open a path if it is a pipe, which nothing may read; raises ``OSError`` then."""
    if not path.is_fifo():
        return None
    try:
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # or it would wait
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(errno.ENXIO, "nothing reads this pipe: start its reader first") from None
    os.set_blocking(number, True)
    return os.fdopen(number, "wb")


@contextmanager
def _refusing(file: Output) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{file}: {reason_of(error)}") from error
