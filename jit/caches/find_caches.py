"""Find the caches of a function: parameters that it returns with new rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.support.ir.call_ops import op_name
from ...byoc.prepare.mutation.bindings import resolved
from ..arguments.signature import LENGTH, extents_of
from .cache_forms import FoundCache, Place, Values, cache_form, place_of

#: The reason of functions that have nothing to do with caches.
NO_CACHE = "it returns no parameter with new rows"
#: Operators that read no values of their argument, only its shape.
_SHAPE_ONLY = frozenset(f"relax.{n}" for n in ("shape_of", "zeros_like", "ones_like", "full_like"))
#: Operators whose result may become a view of their argument.
_MOVES = frozenset(f"relax.{n}" for n in (
    "reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "strided_slice", "split",
    "broadcast_to", "astype", "layout_transform", "memory.view", "memory.ensure_zero_copy",
    "call_tir", "wrap_param", "to_vdevice", "concat", "stack"))  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Caches with the same rows in use.

    Attributes:
        length: The rows in use before a call, a variable or a number.
        kept: The rows in use after it, the last ones; None for all.
    """

    length: Any
    kept: Any


@dataclass(frozen=True)
class FoundCaches:
    """The caches of a function.

    Attributes:
        caches: The caches, in the order of the parameters.
        groups: Those whose rows have no positions, by their length.
        others: The other results.
        reread: Parameters, and fields of them, that the function also reads without the new rows.
        unread: Whether a cache with its new rows is read by no other result.
    """

    caches: tuple[FoundCache, ...]
    groups: tuple[Group, ...]
    others: tuple[Any, ...]
    reread: frozenset[Place]
    unread: bool

    def group(self, cache: FoundCache) -> int:
        """Return the index of the group of a cache; -1 if its rows have positions."""
        if cache.length is None:
            return -1
        return next(k for k, g in enumerate(self.groups) if _equal(g.length, cache.length))


def returned_caches(func: Any) -> list[FoundCache]:
    """Return the results of a Relax function that are a parameter with new rows."""
    forms = (cache_form(func, r, v) for v in [_values(func)] for r in _leaves(func.body.body, v))
    return [form for form in forms if isinstance(form, FoundCache)]


def find_caches(func: Any) -> FoundCaches | str:
    """Return the caches of a Relax function, or why it has none; see `forms`."""
    values = _values(func)
    caches, others, reasons = [], [], []
    for result in _leaves(func.body.body, values):
        cache = cache_form(func, result, values)
        if isinstance(cache, FoundCache):
            caches.append(cache)
        else:
            others.append(result)
            reasons.append(cache)
    if not caches:
        return next((r for r in reasons if r), NO_CACHE)
    if not isinstance(func.body.body, relax.Var):
        return "its result is an expression, expected a variable; normalise it"
    if LENGTH in {str(p.name) for p in func.params}:
        return f"it has a parameter {LENGTH}, the name of the one to add"
    if len({c.place for c in caches}) < len(caches):
        return "it stores rows in one parameter twice"
    groups = _groups(func, caches)
    if isinstance(groups, str):
        return groups
    uses = _counted(func)
    unread = _unread(func, caches, others)
    if reason := (_used_otherwise(func, caches, uses) or _viewed(caches, others, values)
                  or (unread and _kept_alive_by_none(func, others))):  # fmt: skip
        return reason
    caches.sort(key=lambda c: (c.param, -1 if c.field is None else c.field))
    reread = frozenset(c.place for c in caches if c.length is not None and uses.counts[c.place] > 1)
    return FoundCaches(tuple(caches), tuple(groups), tuple(others), reread, bool(unread))


def keeper(others: tuple[Any, ...] | list[Any]) -> Any:
    """Return a result that may depend on caches that no result reads, or None."""
    shaped = (o for o in others if isinstance(o.ty, relax.TensorType)
              and isinstance(o.ty.shape, relax.ShapeExpr))  # fmt: skip
    return next((o for o in shaped if isinstance(o, relax.Var)), None)


def _values(func: Any) -> Values:
    """Return the values of the variables that a function binds."""
    return {b.var: b.value for block in func.body.blocks for b in block.bindings
            if isinstance(b, relax.VarBinding)}  # fmt: skip


def _leaves(expr: Any, values: Values) -> list[Any]:
    """Return the tensors of a result, with tuples flattened."""
    value = resolved(expr, values)
    if isinstance(value, relax.Tuple):
        return [leaf for field in value.fields for leaf in _leaves(field, values)]
    return [expr]


def _equal(left: Any, right: Any) -> bool:
    return left is right or bool(tvm_ffi.structural_equal(left, right))


def _groups(func: Any, caches: list[FoundCache]) -> list[Group] | str:
    groups: list[Group] = []
    for cache in caches:
        if cache.length is None:
            continue
        group = next((g for g in groups if _equal(g.length, cache.length)), None)
        if group is None:
            if cache.kept is not None and extents_of(func, [cache.kept]) == [None]:
                return f"it keeps {cache.kept} rows, which a session cannot compute"
            groups.append(Group(cache.length, cache.kept))
        elif not _equal(group.kept, cache.kept):
            return f"of its caches with {cache.length} rows, it keeps different ones"
    return groups


def _used_otherwise(func: Any, caches: list[FoundCache], uses: _UseCounter) -> str:
    """Return why a cache cannot be written in place.

    Rows that are appended leave those that a function reads otherwise; rows with positions do not.
    """
    for cache in caches:
        name = func.params[cache.param].name
        if cache.field is not None and uses.counts[cache.param, None]:
            return f"it uses {name} as a whole, not only its fields"
        chained = [v for v in cache.chain if uses.variables[v] != 1]
        if cache.length is None and (uses.counts[cache.place] != 1 or chained):
            return f"it reads {name} elsewhere too, not only in {cache.joined.name}"
    return ""


def _viewed(caches: list[FoundCache], others: list[Any], values: Values) -> str:
    """Return which other result may be a view of a cache, which a later call would change."""
    written = {v for c in caches if c.length is None for v in (c.joined, c.result)}
    for other in others:
        todo, seen = [other], set()
        while todo:
            expr = todo.pop()
            if isinstance(expr, relax.Var):
                if expr in written:
                    return f"the result {other.name} may be a view of a cache"
                if expr in values and expr not in seen:
                    seen.add(expr)
                    todo.append(values[expr])
            elif isinstance(expr, relax.TupleGetItem):
                todo.append(expr.tuple_value)
            elif isinstance(expr, relax.Tuple):
                todo.extend(expr.fields)
            elif op_name(expr) in _MOVES:
                todo.extend(expr.args)
    return ""


def _kept_alive_by_none(func: Any, others: list[Any]) -> str:
    if keeper(others) is None:
        return "it returns no tensor of known rank beside its caches, so nothing keeps their stores"
    return ""


def _unread(func: Any, caches: list[FoundCache], others: list[Any]) -> bool:
    """Return whether no other result reads a cache: dead code elimination would drop its rows."""
    matched = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    live: set[Any] = set()
    todo = list(others)
    while todo:
        expr = todo.pop()
        if isinstance(expr, relax.Var):
            if expr not in live:
                live.add(expr)
                todo += [matched[expr]] if expr in matched else []
        elif op_name(expr) not in _SHAPE_ONLY:
            reads: list[Any] = []
            relax.analysis.post_order_visit(expr, reads.append)
            todo += [r for r in reads if isinstance(r, relax.Var)]
    return any(c.joined not in live for c in caches)


def _counted(func: Any) -> _UseCounter:
    uses = _UseCounter(func)
    for block in func.body.blocks:
        uses.visit_binding_block(block)
    uses.visit_expr(func.body.body)
    return uses


@relax.expr_functor.visitor
class _UseCounter(relax.PyExprVisitor):  # type: ignore[misc]
    """Counts where parameters, fields of them, and variables occur."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func
        self.counts: Counter[Place] = Counter()
        self.variables: Counter[Any] = Counter()
        self._names: dict[Any, Place] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        place = place_of(self.func, binding.value)
        if place is not None and isinstance(binding.value, relax.TupleGetItem):
            self._names[binding.var] = place
        else:
            self.visit_expr(binding.value)

    def visit_match_cast_(self, binding: Any) -> None:
        self.visit_expr(binding.value)

    def visit_tuple_getitem_(self, item: Any) -> None:
        place = place_of(self.func, item)
        if place is None:
            self.visit_expr(item.tuple_value)
        else:
            self.counts[place] += 1

    def visit_var_(self, var: Any) -> None:
        self.variables[var] += 1
        place = self._names.get(var) or place_of(self.func, var)
        if place is not None:
            self.counts[place] += 1

    visit_dataflow_var_ = visit_var_
