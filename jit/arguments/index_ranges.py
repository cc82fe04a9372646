"""Ranges of the elements of parameters that index an axis, such as token ids.

Compiled code reads at any index that it is given, also outside of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Operators whose results have the elements of their first operand, and no others.
SAME_ELEMENTS = frozenset(
    f"relax.{name}"
    for name in ("reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "astype")
)
#: Operators that read an axis of their first operand at the elements of their second.
READS = frozenset({"relax.take", "relax.gather_elements"})


@dataclass(frozen=True)
class IndexRange:
    """A range of the elements of a tensor.

    Attributes:
        param: The index of the parameter.
        low: The smallest element that may be.
        high: The largest one.
    """

    param: int
    low: int
    high: int

    def outside(self, tensor: Any) -> int | None:
        """Return an element of a tensor of a CPU that is outside, or None."""
        array = np.from_dlpack(tensor)
        if not array.size:
            return None
        return next((int(x) for x in (array.min(), array.max())
                     if not self.low <= x <= self.high), None)  # fmt: skip


def index_ranges_of(func: Any) -> tuple[IndexRange, ...]:
    """Return the ranges of parameters whose elements index an axis of a known size in each call.

    Elements are followed through casts between integers and changes of shape. A size is added to
    negative elements by `where(less(x, 0), add(x, size), x)`. Reads in branches and inner functions
    may not happen, so they do not count.

    Args:
        func: A Relax function before it is lowered.
    """
    bindings = [b for block in func.body.blocks for b in block.bindings]
    values = {b.var: b.value for b in bindings}
    params = {param: k for k, param in enumerate(func.params)}
    ranges: dict[int, IndexRange] = {}
    for value in values.values():
        for source, low, high in _read(value, values):
            if (k := params.get(source)) is not None:
                known = ranges.get(k, IndexRange(k, low, high))
                ranges[k] = IndexRange(k, max(known.low, low), min(known.high, high))
    return tuple(ranges[k] for k in sorted(ranges))


def _read(value: Any, values: Mapping[Any, Any]) -> Iterator[tuple[Any, int, int]]:
    """Yield the variable whose elements a call reads at, and the range in which they must be."""
    if _name(value) not in READS or str(getattr(value.attrs, "mode", "fast")) != "fast":
        return
    size = _size(value.args[0], value.attrs.axis)
    if size is None:
        return
    index = _source(value.args[1], values)
    below = _wrapped(index, size, values)
    yield (index, 0, size - 1) if below is None else (below, -size, size - 1)


def _size(table: Any, axis: Any) -> int | None:
    """Return the size of the axis that is read; None if it is not a number."""
    from tvm import relax, tirx

    shape = getattr(table.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or (axis is None and len(shape.values) != 1):
        return None
    size = shape.values[int(axis or 0)]
    return int(size.value) if isinstance(size, tirx.IntImm) and size.value > 0 else None


def _source(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return the variable from which the elements of an expression come."""
    from tvm import relax

    while True:
        value = values.get(expr) if isinstance(expr, relax.Var) else expr
        if isinstance(value, relax.Var):
            expr = value
        elif value is not None and _name(value) in SAME_ELEMENTS and _is_integer(value.args[0]):
            expr = value.args[0]
        else:
            return expr


def _wrapped(index: Any, size: int, values: Mapping[Any, Any]) -> Any:
    """Return the variable to whose negative elements the size is added; None if it is not."""
    chosen: Any = values.get(index)
    if _name(chosen) != "relax.where":
        return None
    below, moved = (values.get(arg, arg) for arg in chosen.args[:2])
    own = chosen.args[2]
    if _name(below) != "relax.less" or _name(moved) != "relax.add":
        return None
    if not (below.args[0].same_as(own) and moved.args[0].same_as(own)):
        return None
    if _number(below.args[1]) != 0 or _number(moved.args[1]) != size:
        return None
    return _source(own, values)


def _number(expr: Any) -> int | None:
    array = np.asarray(expr.value.numpy()) if hasattr(expr, "value") else None
    return int(array) if array is not None and array.ndim == 0 else None


def _is_integer(expr: Any) -> bool:
    return str(getattr(expr.ty, "dtype", "")).startswith(("int", "uint"))


def _name(value: Any) -> str:
    return str(getattr(getattr(value, "op", None), "name", ""))
