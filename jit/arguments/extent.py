"""Extents over symbols as plain data: ``n``, ``("+", "n", 1)``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

#: An integer, the name of a symbol, an expression like ("+", "n", 1), or None for an expression
#: that only TVM can check.
Extent = int | str | tuple[Any, ...] | None

OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Max": "max",
             "Min": "min", "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">=",
             "And": "and", "Or": "or"}  # fmt: skip


def spelled(extent: Extent) -> str:
    """Format an extent for messages: ``n``, ``(n + 1)``, ``?``."""
    if not isinstance(extent, tuple):
        return "?" if extent is None else str(extent)
    op, a, b = extent
    if op in ("max", "min"):
        return f"{op}({spelled(a)}, {spelled(b)})"
    return f"({spelled(a)} {op} {spelled(b)})"


def mentions(extent: Extent, name: str) -> bool:
    """Return whether an extent has a symbol."""
    if isinstance(extent, tuple):
        return any(mentions(part, name) for part in extent[1:])
    return extent == name


def value(extent: Extent, values: Mapping[str, int]) -> int | None:
    """Evaluate an extent; None if a symbol is unknown or it divides by zero."""
    if extent is None or isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return values.get(extent)
    op, a, b = extent[0], value(extent[1], values), value(extent[2], values)
    if a is None or b is None or (op in ("//", "%") and b == 0):
        return None
    return int(_COMPUTE[op](a, b))


_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": min,
    "or": max,
}


def extent_of(expr: Any, names: dict[Any, str]) -> Extent:
    """Convert an extent; the second of two variables ``n`` is named ``n_1``."""
    from tvm import tirx

    if isinstance(expr, int | tirx.IntImm):
        return int(expr)
    if isinstance(expr, tirx.Var):
        if expr not in names:
            stem = str(expr.name)
            candidates = (f"{stem}_{k}" if k else stem for k in count())
            names[expr] = next(name for name in candidates if name not in names.values())
        return names[expr]
    op = OPERATORS.get(type(expr).__name__)
    if op is None:
        return None
    a, b = extent_of(expr.a, names), extent_of(expr.b, names)
    return None if a is None or b is None else (op, a, b)


def listed(extent: Extent) -> Any:
    """Return an extent for JSON."""
    return [extent[0], *map(listed, extent[1:])] if isinstance(extent, tuple) else extent


def read_extent(data: Any) -> Extent:
    """Read what `listed` returns; raises ``TypeError`` or ``ValueError`` for anything else."""
    if isinstance(data, list):
        op, a, b = data
        if op not in _COMPUTE:
            raise ValueError(f"unknown operator {op!r}")
        return op, read_extent(a), read_extent(b)
    if data is not None and (isinstance(data, bool) or not isinstance(data, int | str)):
        raise TypeError(f"expected an extent, got {data!r}")
    return data
