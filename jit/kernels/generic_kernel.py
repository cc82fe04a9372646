"""Where the compiler process finds the generic kernel that it compares others with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class GenericKernel:
    """A function of a served library, and the `identity` of the library's file."""

    library: str
    function: str
    identity: tuple[int, ...] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GenericKernel:
        numbers = data["identity"]
        return cls(str(data["library"]), str(data["function"]), numbers and tuple(numbers))


def identity(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Return numbers that change with a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
