"""The memory of a loaded shared library, from its ELF headers."""

from __future__ import annotations

import struct
from pathlib import Path

from ...analysis.support.files.regular_files import open_regular

PAGE = 4096
#: The header of a 64-bit little-endian ELF file: where program headers are, their size and number.
_HEADER = struct.Struct("<6s26xQ14xHH")
#: A program header: type, offset, address, size in the file, in memory.
_SEGMENT = struct.Struct("<I4xQQ8xQQ8x")
_LOAD = 1


def pages(library: Path) -> int:
    """Return the bytes of the pages that a library maps.

    That is less than the file, whose symbols and section headers are not mapped. Returns the size
    of the file if it is not an ELF file.
    """
    segments = _segments(library)
    if not segments:
        return library.stat().st_size
    return sum(
        -(-(address % PAGE + memory_size) // PAGE) * PAGE for _, address, _, memory_size in segments
    )


def cut(library: Path) -> bool:
    """Return whether a segment is truncated: loading it would raise SIGBUS."""
    size = library.stat().st_size
    return any(offset + file_size > size for offset, _, file_size, _ in _segments(library))


def _segments(library: Path) -> list[tuple[int, int, int, int]]:
    """Return offset, address, size in the file and size in memory of each mapped segment."""
    with open_regular(library) as file:
        raw = file.read(PAGE)
    if len(raw) < _HEADER.size:
        return []
    magic, start, each, count = _HEADER.unpack_from(raw)
    if magic != b"\x7fELF\x02\x01" or each < _SEGMENT.size or start + each * count > len(raw):
        return []
    every = (_SEGMENT.unpack_from(raw, start + k * each) for k in range(count))
    return [
        (offset, address, file_size, memory_size)
        for kind, offset, address, file_size, memory_size in every
        if kind == _LOAD
    ]
