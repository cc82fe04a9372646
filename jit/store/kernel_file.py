"""A compiled kernel as a file: the library, what it is, and a digest of both.

library  what the linker wrote; a loader does not look beyond its sections, so the file loads
about    JSON: the key, and what people are told of the kernel
footer   magic, format, the lengths of the two, BLAKE2b of everything before
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

FORMAT = 1
MAGIC = b"opinfo.K"
_LENGTHS = struct.Struct("<8sIIQ")
_DIGEST = 32
FOOTER = _LENGTHS.size + _DIGEST


@dataclass(frozen=True)
class Damaged:
    """The bytes are not an entry of this key; the reason, for people."""

    reason: str


def packed(key: str, about: Mapping[str, str], library: bytes) -> bytes:
    """The bytes of an entry."""
    told = json.dumps({"about": dict(about), "key": key}).encode()
    body = library + told + _LENGTHS.pack(MAGIC, FORMAT, len(told), len(library))
    return body + _digest(body)


def opened(raw: bytes, key: str) -> dict[str, str] | Damaged:
    """What an entry says of itself, if every byte of it is as it was written under this key."""
    lengths = _lengths(raw[-FOOTER:], len(raw))
    if isinstance(lengths, Damaged):
        return lengths
    if _digest(memoryview(raw)[:-_DIGEST]) != raw[-_DIGEST:]:
        return Damaged("its digest is another one")
    about, library = lengths
    told = json.loads(raw[library : library + about])
    if told["key"] != key:
        return Damaged(f"it is the entry of another key, {told['key']}")
    return dict(told["about"])


def about_length(footer: bytes, size: int) -> int | Damaged:
    """How many bytes before the footer say what the entry is, of a file of this size."""
    lengths = _lengths(footer, size)
    return lengths if isinstance(lengths, Damaged) else lengths[0]


def _digest(raw: bytes | memoryview) -> bytes:
    """Twice as fast as SHA-256 where the CPU has no instructions for that."""
    return hashlib.blake2b(raw, digest_size=_DIGEST).digest()


def _lengths(footer: bytes, size: int) -> tuple[int, int] | Damaged:
    """The lengths of what is told and of the library."""
    if len(footer) < FOOTER:
        return Damaged(f"it has {size} bytes only")
    magic, number, about, library = _LENGTHS.unpack_from(footer)
    if magic != MAGIC:
        return Damaged("it does not end as an entry does")
    if number != FORMAT:
        return Damaged(f"it is of format {number}, not {FORMAT}")
    if about + library + FOOTER != size:
        return Damaged(f"it has {size} bytes instead of {about + library + FOOTER}")
    return about, library
