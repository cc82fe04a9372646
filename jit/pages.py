"""The memory that a shared library takes when it is loaded."""

from __future__ import annotations

import struct
from pathlib import Path

PAGE = 4096
#: The header of a 64-bit little-endian ELF file: where program headers are, their size and number.
_HEADER = struct.Struct("<6s26xQ14xHH")
#: A program header: type, offset, address, size in memory.
_SEGMENT = struct.Struct("<I4xQQ16xQ8x")
_LOAD = 1


def pages(library: Path) -> int:
    """Bytes of the pages that its segments are mapped to, which is less than the file: symbols and
    headers of sections are not mapped. For a file of another format, its size."""
    with library.open("rb") as file:
        raw = file.read(PAGE)
    size = library.stat().st_size
    if len(raw) < _HEADER.size:
        return size
    magic, start, each, count = _HEADER.unpack_from(raw)
    if magic != b"\x7fELF\x02\x01" or each < _SEGMENT.size or start + each * count > len(raw):
        return size
    found = 0
    for k in range(count):
        kind, _, address, taken = _SEGMENT.unpack_from(raw, start + k * each)
        if kind == _LOAD:
            found += -(-(address % PAGE + taken) // PAGE) * PAGE
    return found
