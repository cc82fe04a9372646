"""Data behind the last segment of an ELF library, written once.

The assembler and the linker copy what they include, each several times. So the library is linked
with symbols only, which refer to what follows its last segment; then that segment moves to the end
of the file and grows.

    Before: | header | code … | last segment, ending in `MARK` | symbols … |
    After:  | header | code … |                                | symbols … | last segment | data |
"""

from __future__ import annotations

import platform
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: The last bytes of the segment that may grow; the data begin at the address behind them.
MARK = b"the data of this library, which opinfo wrote, follow these bytes"
#: Where to read the tables of segments and of sections: their place, entry size and count.
_HEADER = struct.Struct("<16s2HI3QI6H")
#: Of a segment: type, flags, offset, address, physical address, bytes in the file and in memory,
#: alignment. Of a section: name, type, flags, address, offset, bytes, and what stays.
_SEGMENT, _SECTION = struct.Struct("<2I6Q"), struct.Struct("<2I4Q")
_LOADED, _NO_BITS = 1, 8


def appends(compiler: str) -> bool:
    """Return whether to write libraries so: on Linux on x86-64, by GCC.

    There, sections of large data are in a segment behind all others.
    """
    here = sys.platform.startswith("linux") and platform.machine() == "x86_64"
    return here and "clang" not in Path(compiler).name


@dataclass(frozen=True)
class _ChangedEntries:
    """The entries of a file that change, by the places where they are stored."""

    segment: tuple[int, list[int]]
    section: tuple[int, list[int]]


def append(library: Path, size: int, write: Callable[[BinaryIO], object]) -> bool:
    """Append data to a library; it then starts at the address behind `MARK`.

    Args:
        library: The library, whose last segment ends in `MARK`.
        size: The bytes of the data.
        write: Writes them to a file from its place on.

    Returns:
        Whether this linker's file has the form that is expected; otherwise it is unchanged.
    """
    with library.open("r+b") as file:
        places = _places(file)
        if places is None:
            return False
        (segment_at, segment), (section_at, section) = places.segment, places.section
        offset, address, old, align = segment[2], segment[3], segment[5], max(segment[7], 1)
        file.seek(offset)
        content = file.read(old)
        if content[-len(MARK) :] != MARK:
            return False
        end = file.seek(0, 2)
        begin = end + (address - end) % align
        file.seek(begin)
        file.write(content)
        write(file)
        file.truncate(begin + old + size)
        segment[2], segment[5], segment[6] = begin, old + size, old + size
        section[4], section[5] = begin + section[3] - address, section[5] + size
        for place, layout, values in ((segment_at, _SEGMENT, segment),
                                      (section_at, _SECTION, section)):  # fmt: skip
            file.seek(place)
            file.write(layout.pack(*values))
    return True


def _places(file: BinaryIO) -> _ChangedEntries | None:
    """Return the last segment in memory, and the last section in it; None if they do not fit."""
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return None
    fields = _HEADER.unpack(head)
    (segments_at, sections_at), (size, count, width, number) = fields[5:7], fields[9:13]
    if size < _SEGMENT.size or width < _SECTION.size:
        return None
    segments = [s for s in _entries(file, segments_at, size, count, _SEGMENT) if s[1][0] == _LOADED]
    last = max(segments, key=lambda s: s[1][3], default=None)
    if last is None or last[1][5] != last[1][6]:
        return None
    end = last[1][3] + last[1][5]
    sections = [s for s in _entries(file, sections_at, width, number, _SECTION) if _ends(s[1], end)]
    return _ChangedEntries(last, sections[0]) if len(sections) == 1 else None


def _ends(section: list[int], end: int) -> bool:
    """Return whether a section has bytes in the file, and ends at an address."""
    kind, address, size = section[1], section[3], section[5]
    return bool(address and size) and address + size == end and kind != _NO_BITS


def _entries(
    file: BinaryIO, begin: int, size: int, count: int, layout: struct.Struct
) -> list[tuple[int, list[int]]]:
    """Return the entries of a table with the places where they are stored."""
    out = []
    for place in range(begin, begin + size * count, size):
        file.seek(place)
        out.append((place, list(layout.unpack(file.read(layout.size)))))
    return out
