"""Sizes and random arguments with which two PrimFuncs can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from tests.models.weights import Array

_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b, "Min": min, "Max": max,
}  # fmt: skip


class NotRun(Exception):
    """The PrimFunc or its operators cannot be run here: ``args[0]`` says why."""


def chosen_sizes(func: Any) -> dict[str, int]:
    """Return a number for each symbolic size, small and all different, and each integer parameter.

    A parameter that is not in a shape may be an index, so it is 1 or 0.
    """
    names: dict[str, None] = {}
    scalars = [p for p in func.params if not is_buffer_var(p) and "int" in str(p.ty.dtype)]
    buffers = [p for p in func.params if is_buffer_var(p)]
    for param in sorted(buffers, key=lambda p: not _is_index_vector(p)):  # fewer indices than rows
        for extent in param.ty.shape:
            _variables(extent, names)
    indices = [p.name for p in scalars if p.name not in names]
    numbers = {name: 2 + k for k, name in enumerate(names)}
    return numbers | {name: (k + 1) % 2 for k, name in enumerate(indices)}


def _is_index_vector(param: Any) -> bool:
    return len(param.ty.shape) == 1 and str(param.ty.dtype) in ("int32", "int64")


def _variables(expr: Any, names: dict[str, None]) -> None:
    if isinstance(expr, tirx.Var):
        names[expr.name] = None
    elif type(expr).__name__ in _BINARY:
        _variables(expr.a, names)
        _variables(expr.b, names)


def number(expr: Any, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression over sizes."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Var):
        return sizes[expr.name]
    if type(expr).__name__ in _BINARY:
        return int(_BINARY[type(expr).__name__](number(expr.a, sizes), number(expr.b, sizes)))
    raise NotRun(f"a size is a {type(expr).__name__}")


def shape_of(param: Any, sizes: Mapping[str, int]) -> list[int]:
    return [number(e, sizes) for e in param.ty.shape]


def random_inputs(
    func: Any, outputs: int, sizes: Mapping[str, int], rng: Any
) -> dict[int, Array | None]:
    """Return random values by the position of the parameter; None for a size."""
    buffers = [k for k, p in enumerate(func.params) if is_buffer_var(p)]
    last = [*buffers, len(func.params)][len(buffers) - outputs]
    extents = [e for k in buffers for e in shape_of(func.params[k], sizes) if e > 1]
    below = min(extents, default=2)
    values: dict[int, Array | None] = {}
    for k, param in enumerate(func.params):
        if k in buffers and k >= last:
            continue
        dtype = str(param.ty.dtype)
        shape = shape_of(param, sizes) if k in buffers else []
        if k not in buffers and dtype in ("int32", "int64"):
            values[k] = None
        elif dtype == "bool" or (k not in buffers and "int" in dtype):
            values[k] = rng.integers(0, 2, shape).astype(dtype)
        elif dtype in ("int32", "int64"):  # perhaps indices
            values[k] = rng.integers(0, below, shape).astype(dtype)
        elif "int" in dtype:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            values[k] = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
        else:
            values[k] = np.asarray(rng.uniform(-1, 1, shape)).astype(dtype)
    return values
