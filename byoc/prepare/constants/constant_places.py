"""Stores at constant places as reads, which all libraries have.

Before: y = R.scatter_nd(x, R.const([[2]]), u)                  x of 4 elements, u of one
After:  y = R.take(R.concat((x, u)), R.const([0, 1, 4, 3]))

The code of a scatter writes wherever its indices say, so nothing is known of it but that. Where the
indices are constants, each element of the result is one of ``x`` or of ``u``: the last one that is
stored there. Large tensors are left to the scatter, which copies what it does not store.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax, tirx

from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.bindings import final_value

#: The most elements of a result that are read one by one.
MOST = 4096


def read_at_places(writer: Any, call: Any) -> Any:
    """The reads of a scatter, or the scatter itself.

    Args:
        writer: The mutator that visits the call.
        call: A call of ``relax.scatter_nd``.
    """
    places = final_value(writer, call.args[1])
    shape, stored = _extents(call.args[0]), _extents(call.args[2])
    if str(call.attrs.reduction) != "update" or shape is None or stored is None:
        return call
    if not isinstance(places, GenericConst) or not 0 < math.prod(shape) <= MOST:
        return call
    numbers = _sources(array_of(places).numpy(), shape, math.prod(stored))
    if numbers is None:
        return call
    emit = writer.builder_.emit
    flat = [emit(relax.op.reshape(call.args[k], (-1,))) for k in (0, 2)]
    joined = emit(relax.op.concat(flat, 0))
    read = emit(relax.op.take(joined, relax.const(numbers), 0))
    return relax.op.reshape(read, shape)


def _extents(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value.ty, "shape", None)
    values = shape.values if isinstance(shape, relax.ShapeExpr) else None
    if values is None or not all(isinstance(e, tirx.IntImm) for e in values):
        return None
    return tuple(map(int, values))


def _sources(places: Any, shape: tuple[int, ...], stored: int) -> Any:
    """Where each element of the result is in the data followed by the updates.

    Args:
        places: The indices, points along the last axis.
        shape: The extents of the data.
        stored: The number of elements of the updates.

    Returns:
        An array of int64; None if a place is outside, or if each place has not its own updates.
    """
    depth = places.shape[-1] if places.ndim else 0
    indexed = np.array(shape[:depth], "int64")
    if not depth or ((places < 0) | (places >= indexed)).any():
        return None
    count = math.prod(shape)
    out = np.arange(count, dtype="int64").reshape(*shape[:depth], -1)
    rows = places.reshape(-1, depth)
    if len(rows) * out.shape[-1] != stored:
        return None
    for number, place in enumerate(rows):
        first = count + number * out.shape[-1]
        out[tuple(place)] = np.arange(first, first + out.shape[-1])
    return out.reshape(-1)
