"""Whether libraries can be loaded beside each other in the memory that is free."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path

#: Bytes of memory for each byte of a library: a runtime parses the weights, and packs them.
COPIES = 3
#: Where Linux says how much memory is available without swapping.
INFO = Path("/proc/meminfo")


def fit(libraries: Iterable[Path]) -> bool:
    """Return whether libraries are expected to fit into memory together."""
    return COPIES * sum(library.stat().st_size for library in libraries) <= available()


def available() -> float:
    """Return the bytes that processes can allocate; infinite where that is unknown."""
    try:
        lines = INFO.read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return inf
