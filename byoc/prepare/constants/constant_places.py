"""Stores at constant places as reads, which all libraries have.

Before: y = R.scatter_nd(x, R.const([[2]]), u)                  x of 4 elements, u of one
After:  y = R.take(R.concat((x, u)), R.const([0, 1, 4, 3]))

The code of a scatter writes wherever its indices say, so nothing is known of it but that. Where the
indices are constants, each element of the result is one of ``x`` or of ``u``: the last one that is
stored there. Large tensors are left to the scatter, which copies what it does not store.
"""

from __future__ import annotations

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
    shapes = [_extents(a) for a in call.args]
    if str(call.attrs.reduction) != "update" or None in shapes:
        return call
    if not isinstance(places, GenericConst) or not 0 < np.prod(shapes[0]) <= MOST:
        return call
    numbers = _sources(array_of(places).numpy(), shapes[0])
    if numbers is None:
        return call
    emit = writer.builder_.emit
    flat = [emit(relax.op.reshape(call.args[k], (-1,))) for k in (0, 2)]
    joined = emit(relax.op.concat(flat, 0))
    read = emit(relax.op.take(joined, relax.const(numbers), 0))
    return relax.op.reshape(read, shapes[0])


def _extents(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value.ty, "shape", None)
    values = shape.values if isinstance(shape, relax.ShapeExpr) else None
    if values is None or not all(isinstance(e, tirx.IntImm) for e in values):
        return None
    return tuple(map(int, values))


def _sources(places: Any, shape: tuple[int, ...]) -> Any:
    """Where each element of the result is in the data followed by the updates; None if outside."""
    depth = places.shape[-1]
    indexed = np.array(shape[:depth], "int64")
    if places.size and ((places < 0) | (places >= indexed)).any():
        return None
    count = int(np.prod(shape))
    out = np.arange(count, dtype="int64").reshape(*shape[:depth], -1)
    rows = places.reshape(-1, depth)
    for number, place in enumerate(rows):
        first = count + number * out.shape[-1]
        out[tuple(place)] = np.arange(first, first + out.shape[-1])
    return out.reshape(-1)
