"""Inverses as lookup tables, for small literal domains without a closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.image import Image, linear
from ..maps.to_terms import Unsupported

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class InverseTable:
    """``table(*ys)`` is the point whose image is ``ys``; ``ValueError`` if no point has it."""

    shape: tuple[int, ...]
    lower: tuple[int, ...]
    box: tuple[int, ...]
    keys: Array = field(repr=False)
    points: tuple[Array, ...] = field(repr=False)

    def __call__(self, *ys: int) -> tuple[int, ...]:
        if len(ys) != len(self.box):
            raise ValueError(f"expected {len(self.box)} coordinates, got {len(ys)}")
        inside = all(lo <= y < lo + e for y, lo, e in zip(ys, self.lower, self.box, strict=True))
        position = self._find(ys) if inside else None
        if position is None:
            raise ValueError(f"no point of the shape {self.shape} is mapped to {ys}")
        return tuple(int(p[position]) for p in self.points)

    def _find(self, ys: tuple[int, ...]) -> int | None:
        arrays = tuple(np.asarray([y], dtype=np.int64) for y in ys)
        key = linear(arrays, self.lower, self.box)[0]
        position = int(np.searchsorted(self.keys, key))
        return position if position < self.keys.size and self.keys[position] == key else None


def table(image: Image, shape: tuple[int, ...]) -> InverseTable | None:
    """Return the inverse of an injective image; None if its box is too large to number."""
    lower = tuple(int(v.min()) for v in image.values)
    box = tuple(int(v.max()) - lo + 1 for v, lo in zip(image.values, lower, strict=True))
    try:
        keys = linear(image.values, lower, box)
    except Unsupported:
        return None
    order = np.argsort(keys)
    arrays = [keys[order], *(p[order] for p in image.points)]
    for array in arrays:
        array.setflags(write=False)
    return InverseTable(shape, lower, box, arrays[0], tuple(arrays[1:]))
