"""Memory of kernels, and the buffers that are views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Memory:
    """The elements of a buffer, one row for each owner: a thread, a block, or all threads."""

    def __init__(self, size: int, dtype: str, scope: str) -> None:
        self.size, self.scope = size, scope
        self.kind: Any = np.float64 if "float" in dtype else np.dtype(dtype)
        self.last: Array | None = None  # the thread of this kernel that stored an element

    def give(self, owner: Array, owners: int) -> None:
        """Empty memory, with the row that each thread has."""
        self.owner = owner
        self.values = np.zeros((owners, self.size), self.kind)
        self.written = np.zeros((owners, self.size), bool)


@dataclass
class Buffer:
    """A view of memory: its element of an index is at ``start + index * strides``."""

    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: Any = 0


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a shape whose last dimension is contiguous."""
    return tuple(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))
