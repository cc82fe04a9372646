"""What is true of a map, by plain enumeration of a Python function; no code of the library.

Inverses are read from their printed TVMScript and run as Python, coordinate by coordinate.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import tvm

Fn = Callable[..., tuple[Any, ...]]


def where(condition: Any, a: Any, b: Any) -> Any:
    """A selection that works on numpy arrays, Python integers and TVM expressions."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, a, b)
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    pair = [tvm.tirx.IntImm("int64", x) if isinstance(x, int) else x for x in (a, b)]
    return tvm.tirx.Select(condition, *pair)


def as_map(fn: Fn, rank: int) -> tvm.tirx.IndexMap:
    """A Python function of coordinates as an index map."""
    axes = [tvm.tirx.Var(f"i{k}", "int64") for k in range(rank)]
    results = [tvm.tirx.IntImm("int64", r) if isinstance(r, int) else r for r in fn(*axes)]
    return tvm.tirx.IndexMap(axes, results, None)


def images(fn: Fn, shape: tuple[int, ...]) -> np.ndarray:
    """One row of coordinates for every point, in row-major order."""
    grid = np.indices(shape, dtype=np.int64)
    columns = [np.broadcast_to(np.asarray(r), shape).reshape(-1) for r in fn(*grid)]
    return np.stack(columns, axis=1)


def truth(fn: Fn, shape: tuple[int, ...], out: tuple[int, ...] | None = None) -> str:
    """``bijective`` (onto the box from 0), ``injective`` or ``not_injective``."""
    rows = images(fn, shape)
    if len(np.unique(rows, axis=0)) < len(rows):
        return "not_injective"
    box = tuple(int(k) + 1 for k in rows.max(axis=0)) if out is None else out
    inside = bool((rows >= 0).all() and (rows < np.array(box)).all())
    return "bijective" if inside and math.prod(box) == len(rows) else "injective"


_SCRIPT = SimpleNamespace(
    index_map=lambda fn: fn,
    int64=int,
    int32=int,
    bool=bool,
    Select=lambda c, a, b: a if c else b,
    min=min,
    max=max,
    truncdiv=lambda a, b: int(a / b),
    bitwise_and=operator.and_,
    bitwise_or=operator.or_,
    bitwise_xor=operator.xor,
    shift_left=operator.lshift,
    shift_right=operator.rshift,
)


def as_python(index_map: Any, sizes: Mapping[str, int] | None = None) -> Fn:
    """The printed index map as a Python function."""
    fn: Fn = eval(str(index_map), {"T": _SCRIPT, **(sizes or {})})
    return fn


def predicate_as_python(e: Any, names: list[str], sizes: Mapping[str, int] | None = None) -> Fn:
    """A printed expression as a Python function of the named variables."""
    fn: Fn = eval(f"lambda {', '.join(names)}: {e}", {"T": _SCRIPT, **(sizes or {})})
    return fn


def undone_everywhere(
    inverse: Callable[..., Any], fn: Fn, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The first coordinate at which ``inverse(fn(x)) != x``, or None."""
    for x in itertools.product(*map(range, shape)):
        back = inverse(*(int(y) for y in fn(*x)))
        if tuple(int(b) for b in back) != x:
            return x
    return None
