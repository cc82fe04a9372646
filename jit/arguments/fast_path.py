"""Arguments that need nothing, checked in C++: the plan by which `straight.hpp` does it.

Why arguments are checked in two languages: `boundary` has the errors, and what has to be copied or
imported, which need Python. Where nothing is to be done, one look in C++ costs a call of a small
model 2 us instead of 5, and 80 us instead of 140 where each request streams 48 MiB through the
caches and finds none of the interpreter's objects there. The C++ never refuses: it says that
arguments fit, or leaves them to `boundary`, so the two cannot contradict each other in an error.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from .argument_checks import bounds
from .boundary import Boundary
from .signature import Param

#: An extent or a dtype that may be any; the first symbol, those after it are below.
ANY, FIRST = -1, -2
#: As many symbols as the C++ counts.
MOST = 32


def plan(boundary: Boundary) -> Any | None:
    """What arguments must be, in numbers; None where that is more than numbers tell.

    Parameters and symbols, how many; lowest, highest (-1: none) and divisor of each symbol; and of
    each parameter 0 for what may be anything, 1, device, code, bits and lanes of its dtype, rank,
    extents for a tensor, 2, rank, extents for a shape, 3 for anything but None, 4, least, largest
    for an integer, 5 for a real number, or 6 for a bool.
    """
    names = list(boundary.places)
    params = boundary.signature.params
    if len(names) > MOST or any(p.kind == "tuple" for p in params):
        return None
    if any(isinstance(e, tuple) for p in params for e in p.shape or ()):
        return None
    out = [len(params), len(names)]
    for name in names:
        allowed = boundary.ranges.get(name) if boundary.strict else None
        if allowed is None:
            out += [0, -1, 1]
        else:
            out += [allowed.low, -1 if allowed.high is None else allowed.high, allowed.multiple_of]
    for p in params:
        out += _param(p, names)
    return tvm_ffi.Shape(tuple(out))


def _param(p: Param, names: list[str]) -> list[int]:
    if p.kind == "shape":
        return [2, *_extents(p, names)]
    if p.kind == "number" and p.dtype is not None:
        limits = bounds(p.dtype)
        return [6] if p.dtype == "bool" else [5] if limits is None else [4, *limits]
    if p.kind != "tensor":
        return [0 if p.kind == "object" else 3]
    out = [1, int(tvm_ffi.device(p.device, 0).dlpack_device_type())]
    if p.dtype is None:
        out += [ANY, 0, 0]
    else:
        dtype = tvm_ffi.dtype(p.dtype)
        out += [int(dtype.type_code), int(dtype.bits), int(dtype.lanes)]
    return out + _extents(p, names)


def _extents(p: Param, names: list[str]) -> list[int]:
    """The rank and the extents."""
    if p.shape is None:
        return [ANY]
    out = [len(p.shape)]
    for e in p.shape:
        if isinstance(e, int):
            out.append(e)
        else:
            out.append(ANY if e is None else FIRST - names.index(str(e)))
    return out
