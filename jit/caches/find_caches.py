"""Find the caches of a function: parameters that it returns with new rows behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax, tirx

_CONCAT = ir.Op.get("relax.concat")


@dataclass(frozen=True)
class FoundCache:
    """A parameter, or a field of a parameter that is a tuple, and what is appended to it.

    Attributes:
        param: The index of the parameter.
        field: The index of the field; None if the parameter is a tensor.
        axis: The axis along which rows are appended.
        new: The rows.
        joined: The variable of the concatenation.
    """

    param: int
    field: int | None
    axis: int
    new: Any
    joined: Any


@dataclass(frozen=True)
class FoundCaches:
    """The caches of a function, all of the same length.

    Attributes:
        caches: The caches, in the order in which the function returns them.
        length: The variable of their length.
        others: The other results.
    """

    caches: tuple[FoundCache, ...]
    length: Any
    others: tuple[Any, ...]


def find_caches(func: Any) -> FoundCaches | str:
    """Return the caches of a Relax function, or why it has none.

    A cache is a tensor of which the function returns a concatenation with new rows, and which it
    does not read otherwise.
    """
    values = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    results = _leaves(func.body.body, values)
    caches = []
    others = []
    reasons = []
    for result in results:
        cache = _cache(func, result, values)
        if isinstance(cache, FoundCache):
            caches.append(cache)
        else:
            others.append(result)
            reasons.append(cache)
    if not caches:
        return next((r for r in reasons if r), "it returns no concatenation with a parameter")
    lengths = [_tensor(func, c).shape[c.axis] for c in caches]
    if not all(n.same_as(lengths[0]) for n in lengths):
        names = ", ".join(sorted({str(n) for n in lengths}))
        return f"its caches have different lengths ({names}); use one symbol for all"
    if len({(c.param, c.field) for c in caches}) < len(caches):
        return "it appends to one parameter twice"
    if reason := _read_otherwise(func, caches, values):
        return reason
    return FoundCaches(tuple(caches), lengths[0], tuple(others))


def _leaves(expr: Any, values: dict[Any, Any]) -> list[Any]:
    """Return the tensors of a result, with tuples flattened."""
    value = _resolved(expr, values)
    if isinstance(value, relax.Tuple):
        return [leaf for field in value.fields for leaf in _leaves(field, values)]
    return [expr]


def _resolved(expr: Any, values: dict[Any, Any]) -> Any:
    """Follow variables to the call, tuple or parameter that they stand for."""
    while isinstance(expr, relax.Var) and expr in values:
        expr = values[expr]
    return expr


def _cache(func: Any, result: Any, values: dict[Any, Any]) -> FoundCache | str:
    joined = _resolved(result, values)
    if not (isinstance(joined, ir.Call) and joined.op == _CONCAT):
        return ""
    parts = _resolved(joined.args[0], values)
    if not isinstance(parts, relax.Tuple) or len(parts.fields) != 2:
        return f"{result.name} joins {len(parts.fields)} tensors, expected the cache and new rows"
    place = _place(func, _resolved(parts.fields[0], values))
    if place is None:
        return f"the first part of {result.name} is no parameter"
    axis = int(joined.attrs.axis) % int(joined.ty.ndim)
    cache = FoundCache(*place, axis, parts.fields[1], _last(result, values))
    shape = _tensor(func, cache).shape
    if not isinstance(shape, relax.ShapeExpr) or not ir.is_prim_var(shape[axis]):
        return f"axis {axis} of {func.params[place[0]].name} has no symbolic length of its own"
    if _tensor(func, cache).dtype != joined.ty.dtype:
        return f"{result.name} has another dtype than its cache"
    return cache


def _last(var: Any, values: dict[Any, Any]) -> Any:
    """Return the variable that is bound to the call itself."""
    while isinstance(values[var], relax.Var):
        var = values[var]
    return var


def _place(func: Any, expr: Any) -> tuple[int, int | None] | None:
    """Return where a tensor is in the parameters."""
    field = None
    if isinstance(expr, relax.TupleGetItem):
        expr, field = expr.tuple_value, int(expr.index)
    for k, param in enumerate(func.params):
        if isinstance(expr, relax.Var) and expr.same_as(param):
            return k, field
    return None


def _tensor(func: Any, cache: FoundCache) -> Any:
    ty = func.params[cache.param].ty
    return ty if cache.field is None else ty.fields[cache.field]


def _read_otherwise(func: Any, caches: list[FoundCache], values: dict[Any, Any]) -> str:
    """Return why a cache cannot be written in place: something else than its concatenation."""
    places = {(c.param, c.field): c.joined for c in caches}
    for var, value in values.items():
        if isinstance(value, (relax.Tuple, relax.TupleGetItem, relax.Var)):
            continue  # names for it
        reads: list[Any] = []
        tvm.relax.analysis.post_order_visit(value, reads.append)
        for read in reads:
            place = _place(func, _resolved(read, values)) if _is_name(read) else None
            if place in places and not var.same_as(places[place]):
                return f"{var.name} reads {func.params[place[0]].name} too, not only the result"
    return ""


def _is_name(expr: Any) -> bool:
    return isinstance(expr, (relax.Var, relax.TupleGetItem)) and not isinstance(expr, tirx.IntImm)
