"""Find the caches of a function: parameters that it returns with new rows behind them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax

from ..arguments.signature import LENGTH

_CONCAT = ir.Op.get("relax.concat")
#: The reason of functions that have nothing to do with caches.
NO_CACHE = "it returns no concatenation with a parameter"
#: Operators that read no values of their argument, only its shape.
_SHAPE_ONLY = frozenset(f"relax.{n}" for n in ("shape_of", "zeros_like", "ones_like", "full_like"))
#: What `jit.runtime.generation` can allocate.
_DTYPES = frozenset({"bool", "float16", "float32", "float64",
                     *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))})  # fmt: skip
Place = tuple[int, int | None]


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
        caches: The caches, in the order of the parameters.
        length: The variable of their length.
        others: The other results.
    """

    caches: tuple[FoundCache, ...]
    length: Any
    others: tuple[Any, ...]


def find_caches(func: Any) -> FoundCaches | str:
    """Return the caches of a Relax function, or why it has none.

    A cache is a tensor of which the function returns a concatenation with new rows, and which does
    not occur elsewhere in it.
    """
    values = {b.var: b.value for block in func.body.blocks for b in block.bindings
              if isinstance(b, relax.VarBinding)}  # fmt: skip
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
        return next((r for r in reasons if r), NO_CACHE)
    if LENGTH in {str(p.name) for p in func.params}:
        return f"it has a parameter {LENGTH}, the name of the one to add"
    lengths = [_tensor(func, c).shape[c.axis] for c in caches]
    if not all(n.same_as(lengths[0]) for n in lengths):
        names = ", ".join(sorted({str(n) for n in lengths}))
        return f"its caches have different lengths ({names}); use one symbol for all"
    if len({(c.param, c.field) for c in caches}) < len(caches):
        return "it appends to one parameter twice"
    if reason := _used_otherwise(func, caches) or _unread(func, caches, others):
        return reason
    caches.sort(key=lambda c: (c.param, -1 if c.field is None else c.field))
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
    parts = joined.args[0]
    if not isinstance(parts, relax.Tuple):
        return f"{result.name} joins a tuple that has a name"
    if len(parts.fields) != 2:
        return f"{result.name} joins {len(parts.fields)} tensors, expected the cache and new rows"
    first = values.get(parts.fields[0]) if isinstance(parts.fields[0], relax.Var) else None
    place = _place(func, first if isinstance(first, relax.TupleGetItem) else parts.fields[0])
    if place is None:
        return f"the first part of {result.name} is not a parameter"
    if joined.attrs.axis is None:
        return f"{result.name} joins flattened tensors"
    axis = int(joined.attrs.axis) % int(joined.ty.ndim)
    cache = FoundCache(*place, axis, parts.fields[1], _last(result, values))
    shape = _tensor(func, cache).shape
    if not isinstance(shape, relax.ShapeExpr) or not ir.is_prim_var(shape[axis]):
        return f"axis {axis} of {func.params[place[0]].name} has no symbolic length of its own"
    if _tensor(func, cache).dtype != joined.ty.dtype:
        return f"{result.name} has another dtype than its cache"
    if str(joined.ty.dtype) not in _DTYPES:
        return f"{result.name} is {joined.ty.dtype}, which numpy has no arrays of"
    return cache


def _last(var: Any, values: dict[Any, Any]) -> Any:
    """Return the variable that is bound to the call itself."""
    while isinstance(values[var], relax.Var):
        var = values[var]
    return var


def _place(func: Any, expr: Any) -> Place | None:
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


def _used_otherwise(func: Any, caches: list[FoundCache]) -> str:
    """Return why a cache cannot be written in place: it occurs beside its concatenation."""
    uses = _Uses(func)
    for block in func.body.blocks:
        uses.visit_binding_block(block)
    uses.visit_expr(func.body.body)
    for cache in caches:
        whole = cache.field is not None and uses.counts[cache.param, None]
        if whole or uses.counts[cache.param, cache.field] != 1:
            name = func.params[cache.param].name
            return f"it reads {name} elsewhere too, not only in {cache.joined.name}"
    return ""


@relax.expr_functor.visitor
class _Uses(relax.PyExprVisitor):  # type: ignore[misc]
    """Counts where parameters, and fields of them, occur."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func
        self.counts: Counter[Place] = Counter()
        self._names: dict[Any, Place] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        place = _place(self.func, binding.value)
        if place is not None and isinstance(binding.value, relax.TupleGetItem):
            self._names[binding.var] = place
        else:
            self.visit_expr(binding.value)

    def visit_match_cast_(self, binding: Any) -> None:
        self.visit_expr(binding.value)

    def visit_tuple_getitem_(self, item: Any) -> None:
        place = _place(self.func, item)
        if place is None:
            self.visit_expr(item.tuple_value)
        else:
            self.counts[place] += 1

    def visit_var_(self, var: Any) -> None:
        place = self._names.get(var) or _place(self.func, var)
        if place is not None:
            self.counts[place] += 1

    visit_dataflow_var_ = visit_var_


def _unread(func: Any, caches: list[FoundCache], others: list[Any]) -> str:
    """Return which cache no other result reads: dead code elimination would drop its new rows."""
    matched = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    live: set[Any] = set()
    todo = list(others)
    while todo:
        expr = todo.pop()
        if isinstance(expr, relax.Var):
            if expr not in live:
                live.add(expr)
                todo += [matched[expr]] if expr in matched else []
        elif not (isinstance(expr, ir.Call) and getattr(expr.op, "name", "") in _SHAPE_ONLY):
            reads: list[Any] = []
            relax.analysis.post_order_visit(expr, reads.append)
            todo += [r for r in reads if isinstance(r, relax.Var)]
    for cache in caches:
        if cache.joined not in live:
            name = func.params[cache.param].name
            return f"no other result reads {name} with its new rows, so they would not be stored"
    return ""
