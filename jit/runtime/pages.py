"""The memory that a shared library takes when it is loaded."""

from __future__ import annotations

import struct
from pathlib import Path

from ...analysis.support.regular import open_regular

PAGE = 4096
#: The header of a 64-bit little-endian ELF file: where program headers are, their size and number.
_HEADER = struct.Struct("<6s26xQ14xHH")
#: A program header: type, offset, address, size in the file, in memory.
_SEGMENT = struct.Struct("<I4xQQ8xQQ8x")
_LOAD = 1


def pages(library: Path) -> int:
    """Bytes of the pages that its segments are mapped to, which is less than the file: symbols and
    headers of sections are not mapped. For a file of another format, its size."""
    found = _segments(library)
    if not found:
        return library.stat().st_size
    return sum(-(-(address % PAGE + taken) // PAGE) * PAGE for _, address, _, taken in found)


def cut(library: Path) -> bool:
    """Whether the end of a segment is not in the file: who loads it would die of a bus error."""
    size = library.stat().st_size
    return any(offset + inside > size for offset, _, inside, _ in _segments(library))


def _segments(library: Path) -> list[tuple[int, int, int, int]]:
    """Offset, address, size in the file and in memory of what is mapped."""
    with open_regular(library) as file:
        raw = file.read(PAGE)
    if len(raw) < _HEADER.size:
        return []
    magic, start, each, count = _HEADER.unpack_from(raw)
    if magic != b"\x7fELF\x02\x01" or each < _SEGMENT.size or start + each * count > len(raw):
        return []
    every = (_SEGMENT.unpack_from(raw, start + k * each) for k in range(count))
    return [(offset, address, inside, taken) for kind, offset, address, inside, taken in every
            if kind == _LOAD]  # fmt: skip
