"""Fields of messages of Protocol Buffers, written without copying their bytes."""

from __future__ import annotations

#: The wire type of fields that begin with their length.
_BYTES = 2


def header(field: int, size: int) -> bytes:
    """Return what stands before the bytes of a field.

    Args:
        field: Its number.
        size: The number of its bytes.
    """
    return _varint(field << 3 | _BYTES) + _varint(size)


def _varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    out = bytearray()
    while number >= 1 << 7:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
