"""What a library says of itself, read from its file: loading a library runs code that is in it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...analysis.support.regular import open_regular
from ...byoc.patterns.failure import last_line
from ..arguments.boundary import Range

#: Of the text that a library tells about its functions and sites.
FORMAT = 5
#: The section of an ELF file that holds it.
SECTION = b".opinfo"
#: Bytes that a section of it may have: what the largest models tell is a fraction of them.
LARGEST = 64 << 20
#: The header of a 64-bit little-endian ELF file: where section headers are, their size and number,
#: and which one holds their names.
_HEADER = struct.Struct("<6s34xQ10xHHH")
#: A section header: its name's place, offset and size in the file.
_ENTRY = struct.Struct("<I20xQQ24x")


class NoTable(ValueError):
    """A file that has none: the message says what it is."""


@dataclass(frozen=True)
class LibraryTable:
    """Each of its parts is as `specialize_shapes` wrote it.

    ``functions`` are PrimFuncs as JSON, by name; ``told`` has of each function its name, strategy,
    schedule, and why not more.
    """

    target: str
    functions: Mapping[str, str]
    signatures: tuple[Any, ...]
    ranges: Mapping[str, Range]
    told: tuple[tuple[str, ...], ...]
    sites: tuple[Any, ...]


def parsed(text: str | bytes) -> LibraryTable:
    """Raises ``ValueError`` for what is no table, or one of another version."""
    try:
        told = json.loads(text)
        if told["format"] != FORMAT:
            got = f"its sites are of format {told['format']!r:.20}, this one reads {FORMAT}"
            raise ValueError(f"the library was written by another version of opinfo: {got}")
        ranges = {str(name): Range(*r) for name, r in told["ranges"].items()}
        functions = {str(k): str(v) for k, v in told["functions"].items()}
        rows = tuple(_row(row) for row in told["told"])
        return LibraryTable(str(told["target"]), functions, tuple(told["signatures"]), ranges, rows,
                     tuple(told["sites"]))  # fmt: skip
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as e:
        raise ValueError(f"what the library tells of itself is damaged: {last_line(e)}") from e


def read(library: Path) -> LibraryTable:
    """The table of a library that is not loaded. Raises ``ValueError`` or ``OSError``."""
    text, end, rest = section(library, SECTION).partition(b"\0")
    if not end or rest.strip(b"\0"):
        raise NoTable(f"{library}: what the library tells of itself is damaged")
    try:
        return parsed(text)
    except ValueError as e:
        raise ValueError(f"{library}: {last_line(e)}") from e


def section(library: Path, name: bytes) -> bytes:
    """The bytes of an ELF file's section. Raises `NoTable` or ``OSError``."""
    with open_regular(library) as file:
        size = file.seek(0, 2)
        magic, start, each, count, names = _unpacked(_HEADER, file, 0, size, library)
        if magic != b"\x7fELF\x02\x01":
            raise NoTable(f"{library} is no library for Linux: not a 64-bit ELF file")
        if each != _ENTRY.size or names >= count:
            raise NoTable(f"{library} has no table of sections that can be read")
        entries = [_unpacked(_ENTRY, file, start + k * each, size, library) for k in range(count)]
        _, offset, length = entries[names]
        texts = _part(file, offset, length, size, library)
        for place, offset, length in entries:
            if texts[place : place + len(name) + 1] == name + b"\0":
                return _part(file, offset, length, size, library)
    raise NoTable(f"{library} does not tell of its call sites: it was not made by opinfo's "
                  f"SpecializeShapes, or by an older version")  # fmt: skip


def _unpacked(form: struct.Struct, file: BinaryIO, at: int, size: int, library: Path) -> Any:
    return form.unpack(_part(file, at, form.size, size, library))


def _part(file: BinaryIO, at: int, length: int, size: int, library: Path) -> bytes:
    if at + length > size:
        raise NoTable(f"{library} is no library that loads here: its end is missing")
    if length > LARGEST:
        raise NoTable(f"{library} has a section of {length} bytes, expected at most {LARGEST}")
    file.seek(at)
    return file.read(length)


def _row(row: Any) -> tuple[str, ...]:
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(v, str) for v in row):
        raise TypeError(f"{row!r:.60} is no row of a function")
    return tuple(row)
