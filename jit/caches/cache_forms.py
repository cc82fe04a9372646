"""The forms in which a function returns a cache with new rows.

- appended: ``concat((past, new), axis)``; the cache has the length of both then;
- sliding: the last rows of such a concatenation, ``strided_slice(..., [t - k], [t])`` for t rows;
- updated: ``scatter_nd(past, positions, new)``, possibly with the axes of both permuted: the cache
  keeps its length, and the rows replace those at positions that are data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax

from ...byoc.prepare.mutation.bindings import resolved

_CONCAT, _SLICE, _SCATTER, _PERMUTE, _RESHAPE = (
    ir.Op.get(f"relax.{n}")
    for n in ("concat", "strided_slice", "scatter_nd", "permute_dims", "reshape")
)
#: What `jit.runtime.generation` can allocate.
_DTYPES = frozenset({"bool", "float16", "float32", "float64",
                     *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))})  # fmt: skip
Place = tuple[int, int | None]
Values = Mapping[Any, Any]


@dataclass(frozen=True, eq=False)
class FoundCache:
    """A parameter, or a field of a parameter that is a tuple, and the rows that it gets.

    Attributes:
        param: The index of the parameter.
        field: The index of the field; None if the parameter is a tensor.
        axis: The axis of the rows.
        new: The rows; if they have positions, their first axis counts them.
        joined: The variable of the concatenation, or of the update.
        result: The variable that is returned.
        length: The rows in use before the call; None if the rows have positions.
        kept: The rows in use after a call, the last ones; None for all.
        positions: The positions of the rows, with a second axis of one element.
        order: For rows with positions, the axes of the cache in the order of those of the update.
        chain: For rows with positions, the variables between the parameter and the update.
    """

    param: int
    field: int | None
    axis: int
    new: Any
    joined: Any
    result: Any
    length: Any = None
    kept: Any = None
    positions: Any = None
    order: tuple[int, ...] = ()
    chain: tuple[Any, ...] = ()

    @property
    def place(self) -> Place:
        return self.param, self.field

    def type(self, func: Any) -> Any:
        """Return the type of the parameter, or of its field."""
        ty = func.params[self.param].ty
        return ty if self.field is None else ty.fields[self.field]


def cache_form(func: Any, result: Any, values: Values) -> FoundCache | str:
    """Return the cache that a result is, or why it is none; "" if it has nothing to do with one."""
    call = resolved(result, values)
    is_tensor = isinstance(result, relax.Var) and isinstance(result.ty, relax.TensorType)
    if not isinstance(call, ir.Call) or not is_tensor:
        return ""
    if call.op == _CONCAT:
        return _appended(func, result, call, values)
    if call.op == _SLICE:
        return _sliding(func, result, call, values)
    return _updated(func, result, values)


def last(var: Any, values: Values) -> Any:
    """Return the variable that is bound to the call itself."""
    while isinstance(values[var], relax.Var):
        var = values[var]
    return var


def place_of(func: Any, expr: Any) -> Place | None:
    """Return where a tensor is in the parameters."""
    field = None
    if isinstance(expr, relax.TupleGetItem):
        expr, field = expr.tuple_value, int(expr.index)
    for k, param in enumerate(func.params):
        if isinstance(expr, relax.Var) and expr.same_as(param):
            return k, field
    return None


def _parameter(func: Any, expr: Any, values: Values) -> Place | None:
    first = values.get(expr) if isinstance(expr, relax.Var) else None
    return place_of(func, first if isinstance(first, relax.TupleGetItem) else expr)


def _appended(func: Any, result: Any, call: Any, values: Values) -> FoundCache | str:
    cache = _joined(func, result, call, values)
    if isinstance(cache, str):
        return cache
    if not ir.is_prim_var(cache.length):
        return f"axis {cache.axis} of {_name(func, cache)} has no symbolic length of its own"
    return cache


def _joined(func: Any, result: Any, call: Any, values: Values) -> FoundCache | str:
    """Return the cache of a concatenation, whose length may be a number."""
    parts = call.args[0]
    if not isinstance(parts, relax.Tuple):
        return f"{result.name} joins a tuple that has a name"
    if len(parts.fields) != 2:
        return f"{result.name} joins {len(parts.fields)} tensors, expected the cache and new rows"
    place = _parameter(func, parts.fields[0], values)
    if place is None:
        return f"the first part of {result.name} is not a parameter"
    if call.attrs.axis is None:
        return f"{result.name} joins flattened tensors"
    axis, var = int(call.attrs.axis) % int(call.ty.ndim), last(result, values)
    cache = FoundCache(*place, axis, parts.fields[1], var, var)
    shape = cache.type(func).shape
    if not isinstance(shape, relax.ShapeExpr):
        return f"axis {axis} of {_name(func, cache)} has no symbolic length of its own"
    if reason := _unfit(func, cache, result):
        return reason
    return FoundCache(*place, axis, parts.fields[1], var, var, shape[axis])


def _sliding(func: Any, result: Any, call: Any, values: Values) -> FoundCache | str:
    source = call.args[0]
    joined = resolved(source, values)
    if not (isinstance(joined, ir.Call) and joined.op == _CONCAT):
        return ""
    if not all(isinstance(part, relax.Tuple) for part in call.args[1:]):
        return ""
    cache = _joined(func, source, joined, values)
    if isinstance(cache, str):
        return cache
    axes, begin, end, *strides = ([int(x) if k == 0 else x for x in part.fields]
                                  for k, part in enumerate(call.args[1:]))  # fmt: skip
    total, kept = joined.ty.shape[cache.axis], result.ty.shape[cache.axis]
    step = 1 if not strides else strides[0][0]
    analyzer = tvm.sym.Analyzer()
    if ([a % joined.ty.ndim for a in axes] != [cache.axis] or int(step) != 1
            or not analyzer.can_prove(end[0] >= total)
            or not _equal(begin[0], total - kept)):  # fmt: skip
        return f"{result.name} is not proved to be the last rows of {source.name}"
    if not ir.is_prim_var(cache.length) and not analyzer.can_prove_equal(kept, cache.length):
        return f"axis {cache.axis} of {_name(func, cache)} has no symbolic length of its own"
    return FoundCache(cache.param, cache.field, cache.axis, cache.new, cache.joined,
                      last(result, values), cache.length, kept)  # fmt: skip


def _updated(func: Any, result: Any, values: Values) -> FoundCache | str:
    call, back, _ = _permuted(result, values)
    if not (isinstance(call, ir.Call) and call.op == _SCATTER):
        return ""
    data, positions, new = call.args
    source, order, chain = _permuted(data, values)
    place = _parameter(func, chain[-1] if chain else source, values)
    if place is None:
        return f"what {result.name} updates is not a parameter"
    if [order[k] for k in back] != list(range(len(order))):
        return f"{result.name} has its axes in another order than its cache"
    if str(call.attrs.reduction) != "update":
        return f"{result.name} adds to its cache, expected that it replaces rows"
    shapes = [x.ty.shape for x in (data, positions, new)]
    if not all(isinstance(s, relax.ShapeExpr) for s in shapes):
        return f"{result.name} has shapes that are not known"
    extents, index, rows = (list(s) for s in shapes)
    if not (_same(index, [rows[0], 1]) and _same(rows[1:], extents[1:])):
        return f"{result.name} updates elements, expected whole rows"
    var = next(v for v in _variables(result, values) if values[v].same_as(call))
    inner = tuple(c for c in chain if place_of(func, c) is None and c in values
                  and not isinstance(values[c], relax.TupleGetItem))  # fmt: skip
    cache = FoundCache(*place, order[0], new, var, last(result, values), None, None, positions,
                       tuple(order), inner)  # fmt: skip
    return _unfit(func, cache, result) or cache


def _permuted(expr: Any, values: Values) -> tuple[Any, list[int], list[Any]]:
    """Return what an expression permutes, the order of its axes, and the variables on the way."""
    order, chain = list(range(expr.ty.ndim)), []
    while True:
        while isinstance(expr, relax.Var) and expr in values:
            chain.append(expr)
            expr = values[expr]
        if not isinstance(expr, ir.Call):
            return expr, order, [*chain, *([expr] if isinstance(expr, relax.Var) else [])]
        source = expr.args[0] if expr.op in (_PERMUTE, _RESHAPE) else None
        if expr.op == _PERMUTE:
            axes = expr.attrs.axes
            permutation = [int(a) for a in axes] if axes else list(reversed(range(len(order))))
            order = [permutation[k] % len(permutation) for k in order]
        elif source is None or not _same(_extents(expr), _extents(source)):
            return expr, order, chain
        expr = source


def _variables(expr: Any, values: Values) -> list[Any]:
    """Return the variables that permutations and reshapes lead back to."""
    return _permuted(expr, values)[2]


def _equal(left: Any, right: Any) -> bool:
    """Return whether extents are equal; clamped ones are not compared by `can_prove_equal`."""
    analyzer = tvm.sym.Analyzer()
    return bool(analyzer.can_prove_equal(left, right) or tvm_ffi.structural_equal(
        analyzer.simplify(left), analyzer.simplify(right)))  # fmt: skip


def _extents(expr: Any) -> list[Any]:
    return list(expr.ty.shape) if isinstance(expr.ty.shape, relax.ShapeExpr) else []


def _same(left: list[Any], right: list[Any]) -> bool:
    analyzer = tvm.sym.Analyzer()
    return bool(left) and len(left) == len(right) and all(
        analyzer.can_prove_equal(a, b) for a, b in zip(left, right, strict=True))  # fmt: skip


def _unfit(func: Any, cache: FoundCache, result: Any) -> str:
    """Return why no buffer can be allocated for a cache."""
    ty = cache.type(func)
    if ty.dtype != result.ty.dtype or ty.dtype != cache.new.ty.dtype:
        return f"{result.name} has another dtype than its cache"
    if str(ty.dtype) not in _DTYPES:
        return f"{result.name} is {ty.dtype}, which numpy has no arrays of"
    return ""


def _name(func: Any, cache: FoundCache) -> str:
    return str(func.params[cache.param].name)
