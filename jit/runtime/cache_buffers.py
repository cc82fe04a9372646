"""Buffers of caches: rows in use, and room for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments.acceptor import BoundaryError
from ..arguments.extent import Extent, value
from ..arguments.signature import Cache, Param, Signature
from ..arguments.tensor_checks import aligned_array

Buffer = np.ndarray[Any, Any]
Values = dict[str, int]


class RowsInUse(NamedTuple):
    """The first row of a cache that is in use, and the number of rows in use."""

    first: int
    length: int


def clear_rows(buffer: Buffer, cache: Cache, state: RowsInUse) -> None:
    """Set the rows to zero with which a cache begins."""
    rows = np.moveaxis(buffer, cache.axis, 0)
    if cache.group < 0:
        rows[...] = 0
    else:
        rows[state.first : state.first + state.length] = 0


def cache_param(signature: Signature, cache: Cache) -> Param:
    """Return the parameter, or the field of one, that a cache is."""
    param = signature.params[cache.param]
    return param if cache.field < 0 else param.fields[cache.field]


def cache_shape(
    signature: Signature, cache: Cache, values: Values, room: int | None
) -> tuple[int, ...]:
    """Return the shape of a cache, with room for so many rows if it grows."""
    extents: Sequence[Extent] = cache_param(signature, cache).shape or ()
    sizes = [value(e, values) if room is None or k != cache.axis else room
             for k, e in enumerate(extents)]  # fmt: skip
    if None in sizes:
        raise BoundaryError(f"{signature.function}: the inputs do not determine the shape of "
                            f"{cache_param(signature, cache)}")  # fmt: skip
    return tuple(int(s) for s in sizes if s is not None)


def moved_rows(buffer: Buffer, axis: int, state: RowsInUse, first: int, room: int) -> Buffer:
    """Return a copy of the rows in use, from row ``first`` of so many."""
    shape = list(buffer.shape)
    shape[axis] = room
    out = aligned_array(shape, str(buffer.dtype))
    rows = np.moveaxis(buffer, axis, 0)[state.first : state.first + state.length]
    np.moveaxis(out, axis, 0)[first : first + state.length] = rows
    return out
