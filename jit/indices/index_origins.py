"""The tensor from which the elements of an index come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, sym, tirx

from ...analysis.support.ir.call_ops import op_name
from ...analysis.support.ir.tensor_dims import tensor_dims
from ...analysis.support.tvm_compat import GenericConst, array_of
from .index_reads import IndexRead

#: Operators whose results have the elements of their first operand, and no others; results of
#: broadcasts that are not empty.
SAME_ELEMENTS = frozenset(
    f"relax.{name}"
    for name in ("reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "astype",
                 "broadcast_to")
)  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """A tensor whose elements are those of an index before sizes are added to negative ones.

    Attributes:
        tensor: A variable or constant.
        low: The smallest element that is inside.
        high: The largest one.
        component: The position on the tensor's last axis of the elements; None means all.
        also: An element outside of the range that nothing is read at; None if there is none.
    """

    tensor: Any
    low: Any
    high: Any
    component: int | None
    also: int | None = None


def origin(read: IndexRead, call: Any, values: Mapping[Any, Any]) -> Origin:
    """Return where the elements of an index come from.

    They are followed through casts between integers that keep what is inside, changes of shape and
    broadcasts. Sizes are added to negative elements by `where(less(x, 0), add(x, size), x)`.

    Args:
        read: What a call reads.
        call: The call.
        values: The values of variables.
    """
    if read.also is not None:
        return Origin(read.of(call), read.low, read.high, None, read.also)
    column = _column(read.of(call), read.component, values)
    if column is not None:
        inside = read.low, read.high
        return Origin(source(column, values, inside), *inside, None)
    whole = read.component is None
    index = source(read.of(call), values, (read.low, read.high), moved=whole)
    size = tirx.IntImm("int64", 1) + read.high
    below = _wrapped(index, size, read.component, values) if _is_zero(read.low) else None
    if below is None:
        return Origin(index, read.low, read.high, read.component)
    tensor = source(below, values, (-size, read.high), moved=whole)
    return Origin(tensor, -size, read.high, read.component)


def _column(index: Any, component: int | None, values: Mapping[Any, Any]) -> Any:
    """Return the integers of which a joined table of real numbers has its first column; or None.

    Those from 0 to a size that is below 2^24 are the same in floating point.
    """
    table: Any = values.get(index)
    if component != 0 or op_name(table) != "relax.concat" or table.ty.ndim != 2:
        return None
    axis, first = table.attrs.axis, table.args[0]
    if not isinstance(first, relax.Tuple) or axis is None or int(axis) not in (1, -1):
        return None
    cast: Any = values.get(first.fields[0])
    dims = tensor_dims(first.fields[0])
    one = dims is not None and isinstance(dims[1], tirx.IntImm) and int(dims[1]) == 1
    known = one and op_name(cast) == "relax.astype" and is_integer(cast.args[0])
    return cast.args[0] if known else None


def values_of(func: Any) -> dict[Any, Any]:
    """Return the values that the top of a function binds to variables."""
    return {b.var: b.value for block in func.body.blocks for b in block.bindings}


def source(
    expr: Any, values: Mapping[Any, Any], inside: tuple[Any, Any], moved: bool = True
) -> Any:
    """Return the variable from which the elements of an expression come.

    Args:
        expr: A variable or constant.
        values: The values of variables.
        inside: The smallest and the largest element that a check will allow.
        moved: Whether elements may have other positions in it.
    """
    while True:
        value = values.get(expr) if isinstance(expr, relax.Var) else expr
        if isinstance(value, relax.Var):
            expr = value
        elif value is not None and _keeps(value, inside, moved):
            expr = value.args[0]
        else:
            return expr


def _keeps(value: Any, inside: tuple[Any, Any], moved: bool) -> bool:
    name = op_name(value)
    if name not in SAME_ELEMENTS or not (moved or name == "relax.astype"):
        return False
    if name == "relax.astype" and not _fits(str(value.ty.dtype), *inside):
        return False  # -5 would become 251 in uint8
    return is_integer(value.args[0]) and (name != "relax.broadcast_to" or _is_filled(value))


def _fits(dtype: str, low: Any, high: Any) -> bool:
    """Return whether a dtype has all integers of a range; sizes are below 2^31."""
    if not dtype.startswith(("int", "uint")):
        return False
    info = np.iinfo(dtype)
    if isinstance(low, tirx.IntImm) and isinstance(high, tirx.IntImm):
        return int(info.min) <= int(low) and int(high) <= int(info.max)
    return info.bits >= 32 and (info.min < 0 or _is_zero(low))


def _is_filled(expr: Any) -> bool:
    """Return whether a tensor is known to have elements."""
    dims = tensor_dims(expr)
    return dims is not None and all(isinstance(d, tirx.IntImm) and d.value > 0 for d in dims)


def _wrapped(index: Any, size: Any, component: int | None, values: Mapping[Any, Any]) -> Any:
    """Return the variable to whose negative elements the size is added; None if it is not."""
    chosen: Any = values.get(index)
    if op_name(chosen) != "relax.where":
        return None
    below, moved = (values.get(arg, arg) for arg in chosen.args[:2])
    own = chosen.args[2]
    if op_name(below) != "relax.less" or op_name(moved) != "relax.add":
        return None
    if not (below.args[0].same_as(own) and moved.args[0].same_as(own)):
        return None
    zero, added = (_numbers(e, values) for e in (below.args[1], moved.args[1]))
    if zero is None or added is None or any(not _is_zero(z) for z in zero):
        return None
    one = added[component] if component is not None and len(added) > 1 else added[0]
    if len(added) > 1 and component is None:
        return None
    return own if sym.Analyzer().can_prove_equal(one, size) else None


def _numbers(expr: Any, values: Mapping[Any, Any]) -> list[Any] | None:
    """Return the numbers or sizes in a tensor of at most one axis; None for others."""
    while True:
        if isinstance(expr, GenericConst):
            array = np.asarray(array_of(expr).numpy())
            fits = array.ndim <= 1 and array.dtype.kind in "iu"
            return [tirx.IntImm("int64", int(x)) for x in array.reshape(-1)] if fits else None
        value = values.get(expr, expr) if isinstance(expr, relax.Var) else expr
        name = op_name(value)
        if name == "relax.shape_to_tensor":
            shape = values.get(value.args[0], value.args[0])
            return list(shape.values) if isinstance(shape, relax.ShapeExpr) else None
        if name not in ("relax.astype", "relax.reshape") or not is_integer(value.args[0]):
            return None
        expr = value.args[0]


def is_integer(expr: Any) -> bool:
    """Return whether the elements of a tensor are integers."""
    return str(getattr(expr.ty, "dtype", "")).startswith(("int", "uint"))


def _is_zero(number: Any) -> bool:
    return isinstance(number, tirx.IntImm) and int(number) == 0
