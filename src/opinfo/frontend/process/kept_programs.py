"""Programs that were read before, by the content of their files.

Reading a program of torch imports torch and traces the program, which takes longer than all else in
a build. What comes out depends on the file, the requested shapes, and the packages that read it. So
it is kept in the user's cache, without the weights: an entry has their places in the file.

An entry is a line of JSON, the digest of what follows and the places of arrays, and a message as
`large_constants` writes it, without the arrays that are in the file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis.support.files.atomic_replace import replacing
from ...analysis.support.files.bounded_folder import forget_oldest
from ...analysis.support.files.checked_json import parse
from ...analysis.support.files.user_cache import user_cache
from ...byoc.process import trust
from ..checks.input_shapes import Shapes
from ..checks.ir_json.json_graph import BadGraph
from ..checks.ir_json.large_constants import Array, Message, from_parts, heading, unpacked

#: Formats whose files name no other file, and take long to read.
SUFFIXES = (".pt2",)
#: Bytes of files whose programs are kept, as they are in memory meanwhile, and of all entries.
LARGEST, MOST = 1 << 30, 256 << 20
#: Packages that read them.
READERS = ("torch", "apache-tvm", "apache-tvm-ffi", "numpy", "sympy")
PACKAGE = Path(__file__).parents[2]
#: The folder in the user's cache, and the version of its files.
FOLDER, FORMAT = "programs", "1"
#: The first bytes of a record of a file, which are compared before the others.
SAMPLE = 64


@dataclass(frozen=True, eq=False)
class KeptProgram:
    """The state of a file, and the entry of its program, which may not exist."""

    file: Path
    content: bytes
    state: tuple[int, ...]
    entry: Path

    def find(self) -> tuple[bytes, list[Array]] | None:
        """Return the JSON of the program, unchecked, and its arrays; None if it is not kept."""
        with contextlib.suppress(OSError, ValueError, KeyError, BadGraph):
            with trust.folder(self.entry.parent) as within:
                text = trust.read(self.entry.name, within, MOST)
            line, _, message = text.partition(b"\n")
            digest, places = parse(line).items()
            if digest.value != hashlib.sha256(message).hexdigest():
                return None
            with contextlib.suppress(OSError):
                os.utime(self.entry)  # it was used last
            return from_parts(message, [self._at(p.value) for p in places.items()])
        return None

    def keep(self, message: Message) -> None:
        """Keep what the reader answered for the file, if it has not changed since.

        The message must have been checked: the parts of a file are only looked at here if the
        reader took it.
        """
        with contextlib.suppress(OSError, ValueError, RuntimeError, zipfile.BadZipFile):
            text, arrays = unpacked(message)
            places = self._places(arrays)
            stored = [a for a, place in zip(arrays, places, strict=True) if place is None]
            parts: list[bytes | memoryview] = [heading(text, arrays), text]
            parts += [a.data.cast("B") for a in stored if a.size]
            body = b"".join(parts)
            if len(body) > MOST or _state(os.stat(self.file)) != self.state:
                return
            line = json.dumps([hashlib.sha256(body).hexdigest(), places]).encode()
            with trust.folder(self.entry.parent, create=True):
                with replacing(self.entry) as part:
                    part.write_bytes(b"\n".join((line, body)))
                forget_oldest(self.entry.parent, MOST)

    def _at(self, place: Any) -> memoryview | None:
        """Return the bytes from a place in the file to its end."""
        if place is None:
            return None
        if type(place) is not int or not 0 <= place <= len(self.content):
            raise BadGraph("a weight is not in the file")
        return memoryview(self.content)[place:]

    def _places(self, arrays: Sequence[Array]) -> list[int | None]:
        """Return where the bytes of each array are a record of the file; None if nowhere."""
        records: dict[tuple[int, bytes], list[int]] = {}
        for start, size in _records(self.content):
            sample = self.content[start : start + min(size, SAMPLE)]
            records.setdefault((size, sample), []).append(start)
        whole = np.frombuffer(self.content, "uint8")

        def place(array: Array) -> int | None:
            flat = array.reshape(-1).view("uint8")
            for start in records.get((flat.size, flat[:SAMPLE].tobytes()), ()):
                if np.array_equal(whole[start : start + flat.size], flat):
                    return start
            return None

        return [place(array) for array in arrays]


def kept_program(path: Path, shapes: Shapes) -> KeptProgram | None:
    """Return the entry of a file, read for requested shapes; None if such files are not kept."""
    if path.suffix.lower() not in SUFFIXES:
        return None
    with contextlib.suppress(OSError, RuntimeError, TypeError), path.open("rb") as file:
        state = os.fstat(file.fileno())
        if state.st_size > LARGEST:
            return None
        content = file.read()
        parts = [FORMAT, hashlib.sha256(content).hexdigest(), sorted(shapes.items()), _readers()]
        name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return KeptProgram(path, content, _state(state), user_cache(FOLDER) / name)
    return None


def _state(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _records(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the records of an archive start, and their sizes in bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            if info.compress_type == zipfile.ZIP_STORED:
                # The local header: 30 bytes, with the lengths of a name and of more after it.
                head = content[info.header_offset : info.header_offset + 30]
                lengths = np.frombuffer(head, "<u2", 2, 26)
                yield info.header_offset + 30 + int(lengths.sum()), info.file_size


@functools.cache
def _readers() -> list[Any]:
    """Return the versions of what reads programs, and a digest of opinfo's own files.

    The digest is of sizes and times, as Python knows which bytecode is of an older source.
    """
    files = sorted((p, s.st_size, s.st_mtime_ns) for p, s in _files(str(PACKAGE)))
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    return [sys.version, *map(_version, READERS), digest]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder; in a checkout its folders are symbolic links."""
    with os.scandir(folder) as entries:
        for item in entries:
            if not item.is_dir():
                with contextlib.suppress(FileNotFoundError):  # a link that an editor keeps
                    yield item.path, item.stat()
            elif item.name != "__pycache__":
                yield from _files(item.path)
