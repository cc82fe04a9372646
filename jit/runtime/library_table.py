"""The table that a library embeds, read from the file without running the library's code."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...analysis.support.files.regular_files import open_regular
from ...analysis.support.wording import last_line
from ..arguments.boundary import Range

#: Version of the table.
FORMAT = 7
#: The section of an ELF file that holds it.
SECTION = b".opinfo"
#: Limit on the bytes of a section; the largest models need a fraction of it.
LARGEST = 64 << 20
#: The header of a 64-bit little-endian ELF file: where section headers are, their size and number,
#: and which one holds their names.
_HEADER = struct.Struct("<6s34xQ10xHHH")
#: A section header: its name's place, offset and size in the file.
_ENTRY = struct.Struct("<I20xQQ24x")


STATIC = (
    "this library was compiled without shapes=, or not by opinfo: compile it with "
    'shapes="jit" (--shapes jit) to serve it in a Session, or run it by Compiled.run or '
    "relax.VirtualMachine"
)


class NoTable(ValueError):
    """A file has no table; the message says why."""


@dataclass(frozen=True)
class LibraryTable:
    """The table as `specialize_shapes` wrote it.

    ``functions`` maps names to PrimFuncs as JSON. ``function_rows`` holds the name, strategy and
    schedule of each function, and why it is limited.
    """

    target: str
    functions: Mapping[str, str]
    signatures: tuple[Any, ...]
    ranges: Mapping[str, Range]
    function_rows: tuple[tuple[str, ...], ...]
    sites: tuple[Any, ...]


def parsed(text: str | bytes) -> LibraryTable:
    """Parse a table; raises ``ValueError`` if it is invalid or of another version."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            got = f"its table has format {data['format']!r:.20}, expected {FORMAT}"
            raise ValueError(f"the library was written by another version of opinfo: {got}")
        ranges = {str(name): Range(*r) for name, r in data["ranges"].items()}
        functions = {str(k): str(v) for k, v in data["functions"].items()}
        rows = tuple(_row(row) for row in data["told"])
        return LibraryTable(str(data["target"]), functions, tuple(data["signatures"]), ranges, rows,
                     tuple(data["sites"]))  # fmt: skip
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"the library's table is damaged: {last_line(error)}") from error


def read(library: Path) -> LibraryTable:
    """Read the table of a library without loading it; raises ``ValueError`` or ``OSError``."""
    text, end, padding = section(library, SECTION).partition(b"\0")
    if not end or padding.strip(b"\0"):
        raise NoTable(f"{library}: the library's table is damaged")
    try:
        return parsed(text)
    except ValueError as error:
        raise ValueError(f"{library}: {last_line(error)}") from error


def section(library: Path, name: bytes) -> bytes:
    """Return the bytes of a section of an ELF file; raises `NoTable` or ``OSError``."""
    with open_regular(library) as file:
        size = file.seek(0, 2)
        magic, start, each, count, names = _unpacked(_HEADER, file, 0, size, library)
        if magic != b"\x7fELF\x02\x01":
            raise NoTable(f"{library} is not a Linux library: expected a 64-bit ELF file")
        if each != _ENTRY.size or names >= count:
            raise NoTable(f"{library} has no readable section table")
        entries = [_unpacked(_ENTRY, file, start + k * each, size, library) for k in range(count)]
        _, offset, length = entries[names]
        texts = _part(file, offset, length, size, library)
        for place, offset, length in entries:
            if texts[place : place + len(name) + 1] == name + b"\0":
                return _part(file, offset, length, size, library)
    raise NoTable(f"{library}: {STATIC}")


def _unpacked(form: struct.Struct, file: BinaryIO, at: int, size: int, library: Path) -> Any:
    return form.unpack(_part(file, at, form.size, size, library))


def _part(file: BinaryIO, at: int, length: int, size: int, library: Path) -> bytes:
    if at + length > size:
        raise NoTable(f"{library} is not a loadable library: the file is truncated")
    if length > LARGEST:
        raise NoTable(f"{library} has a section of {length} bytes, expected at most {LARGEST}")
    file.seek(at)
    return file.read(length)


def _row(row: Any) -> tuple[str, ...]:
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(v, str) for v in row):
        raise TypeError(f"expected a row of four strings, got {row!r:.60}")
    return tuple(row)
