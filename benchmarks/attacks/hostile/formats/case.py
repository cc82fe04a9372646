"""A hostile file, and random changes of bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

#: Size in bytes of the page that reports what the limits refused.
SIZE = 4096


@dataclass(frozen=True)
class Case:
    """A file to inspect: what it tries, its suffix and its bytes."""

    name: str
    suffix: str
    content: bytes


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Change, remove or repeat some bytes, or cut off the end."""
    data = bytearray(content)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        case 1:
            del data[rng.randrange(len(data)) :]
        case 2:
            start = rng.randrange(len(data))
            del data[start : start + rng.randint(1, 64)]
        case _:
            start = rng.randrange(len(data))
            data[start:start] = data[start : start + rng.randint(1, 64)]
    return bytes(data)


def command(mark: Path) -> str:
    """Return Python code that writes the mark."""
    return f"__import__('os').system('touch {mark}')"
