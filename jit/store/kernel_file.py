"""The file format of a stored kernel: the library, its description, and a digest of both.

library  as linked; a loader ignores bytes beyond the sections, so the file can be loaded
about    JSON: the key, and a description for `opinfo cache`
footer   magic, format, the lengths of both parts, BLAKE2b of everything before
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ...analysis.support.files.checked_json import Malformed, parse

FORMAT = 1
MAGIC = b"opinfo.K"
_LENGTHS = struct.Struct("<8sIIQ")
_DIGEST = 32
FOOTER = _LENGTHS.size + _DIGEST


@dataclass(frozen=True)
class Damaged:
    """The bytes are not an entry of this key; ``reason`` says why."""

    reason: str


def packed(key: str, about: Mapping[str, str], library: bytes) -> bytes:
    """Return the bytes of an entry."""
    description = json.dumps({"about": dict(about), "key": key}).encode()
    body = library + description + _LENGTHS.pack(MAGIC, FORMAT, len(description), len(library))
    return body + _digest(body)


def opened(raw: bytes, key: str) -> dict[str, str] | Damaged:
    """Verify an entry to the last byte, and return its description."""
    lengths = _lengths(raw[-FOOTER:], len(raw))
    if isinstance(lengths, Damaged):
        return lengths
    if _digest(memoryview(raw)[:-_DIGEST]) != raw[-_DIGEST:]:
        return Damaged("its digest does not match")
    length, library = lengths
    try:
        own, about = described(raw[library : library + length])
    except Malformed as error:
        return Damaged(f"its description is malformed: {error}")
    return about if own == key else Damaged(f"it has another key, {own[:80]}")


def described(text: bytes) -> tuple[str, dict[str, str]]:
    """Return the key and the description that an entry has. Raises `Malformed`."""
    data = parse(text)
    return data["key"].text(), {k: v.text() for k, v in data["about"].fields().items()}


def about_length(footer: bytes, size: int) -> int | Damaged:
    """Return the length of the description, given the footer and the size of the file."""
    lengths = _lengths(footer, size)
    return lengths if isinstance(lengths, Damaged) else lengths[0]


def _digest(raw: bytes | memoryview) -> bytes:
    """Return the BLAKE2b digest, twice as fast as SHA-256 on CPUs without SHA instructions."""
    return hashlib.blake2b(raw, digest_size=_DIGEST).digest()


def _lengths(footer: bytes, size: int) -> tuple[int, int] | Damaged:
    """Return the lengths of the description and of the library."""
    if len(footer) < FOOTER:
        return Damaged(f"it has only {size} bytes")
    magic, number, about, library = _LENGTHS.unpack_from(footer)
    if magic != MAGIC:
        return Damaged("its footer is missing")
    if number != FORMAT:
        return Damaged(f"it has format {number}, expected {FORMAT}")
    if about + library + FOOTER != size:
        return Damaged(f"it has {size} bytes, expected {about + library + FOOTER}")
    return about, library
