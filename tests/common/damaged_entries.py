"""Entries of a cache, a line of JSON and then content, that are damaged in different ways."""

from __future__ import annotations

import json
from collections.abc import Callable


def _flipped(entry: bytes) -> bytes:
    return entry[:-9] + bytes([entry[-9] ^ 1]) + entry[-8:]


def _other_number(entry: bytes) -> bytes:
    line, _, content = entry.partition(b"\n")
    return json.dumps([json.loads(line)[0], 3]).encode() + b"\n" + content


#: By what is wrong with the result.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "shorter": lambda entry: entry[:-9],
    "flipped": _flipped,
    "empty": lambda entry: b"",
    "number": _other_number,
    "nested": lambda entry: b"[" * 100_000 + entry,
}
