"""Index maps as terms: from ``tvm.tirx.IndexMap``, Python functions and expressions.

The caller's map is kept beside the terms (`Map.source`), so that results derived with terms can be
checked on the original expressions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.tirx import IndexMap

from ...lifting.tir.from_tir import ExpressionReader
from ...lifting.tir.node import script
from ...lifting.tir.unliftable import Unliftable
from ...terms.term import TRUE, ZERO, Int, Term, Var, as_int, integer, variable
from ...terms.traversal import free

MapLike: TypeAlias = "IndexMap | Callable[..., Any]"


class Unsupported(Exception):
    """An expression is not supported in index maps; the answer about the map is ``unknown``."""


@dataclass(frozen=True)
class Map:
    """``results`` over ``axes`` with ``0 <= axes[k] < extents[k]``, where ``predicate`` holds.

    ``sizes`` pairs each symbolic extent with its TVM variable; ``source_predicate`` is over the
    variables of ``source``.
    """

    axes: tuple[Var, ...]
    extents: tuple[Int, ...]
    results: tuple[Int, ...]
    predicate: Term
    source: IndexMap
    source_predicate: Any
    sizes: tuple[tuple[Var, Any], ...]
    dtype: str

    @property
    def literal_shape(self) -> tuple[int, ...] | None:
        """Return the extents as numbers, or None if one, or a result, depends on a size."""
        shape = tuple(e.const for e in self.extents)
        if self.sizes or any(k is None for k in shape):
            return None
        return tuple(k for k in shape if k is not None)

    def coordinate(self, axis: int) -> Int:
        """Return an axis as it occurs in the results: 0 where its extent is 1."""
        return ZERO if self.extents[axis].const == 1 else as_int(self.axes[axis])


class ExtentScope:
    """Symbolic extents of the maps of one question: equal TVM variables are the same term."""

    def __init__(self) -> None:
        self.sizes: dict[Any, Var] = {}

    def size(self, var: Any) -> Var:
        if var not in self.sizes:
            names = {s.name for s in self.sizes.values()}
            name = var.name if var.name not in names else f"{var.name}_{len(names)}"
            self.sizes[var] = variable("size", name)
        return self.sizes[var]

    def read(self, expr: Any, axes: Mapping[Any, Term]) -> Term:
        """Return an expression over axes; every other variable is a size, at least 1."""
        env = {v: axes[v] if v in axes else as_int(self.size(v)) for v in variables(expr)}
        try:
            return ExpressionReader(env, _no_loads)(expr)
        except Unliftable as error:
            raise Unsupported(str(error)) from error


def _no_loads(buffer: Any, indices: tuple[Int, ...]) -> Term:
    raise Unliftable("an index map does not read buffers", str(buffer))


def index_map(source: MapLike, rank: int, what: str = "index_map") -> IndexMap:
    """Return the TVM map of a map or function; raise for another type, rank or float results."""
    if not isinstance(source, IndexMap):
        if not callable(source):
            raise TypeError(
                f"{what}: expected a tvm.tirx.IndexMap or a function, got {type(source).__name__}"
            )
        source = _called(source, rank, what)
    if len(source.initial_indices) != rank:
        raise ValueError(
            f"{what}: expected a map of {rank} axes, one per dimension of the shape, "
            f"got {len(source.initial_indices)}"
        )
    for k, expr in enumerate(source.final_indices):
        if not str(expr.ty.dtype).startswith("int"):
            raise TypeError(
                f"{what}: result {k} must be an integer, got {expr.ty.dtype}: {script(expr)}"
            )
    return source


def _called(fn: Callable[..., Any], rank: int, what: str) -> IndexMap:
    """The map that a function of the axes describes; parameters with a default are not axes."""
    names = [
        parameter.name
        for parameter in inspect.signature(fn).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ][:rank]
    names += [f"i{k}" for k in range(len(names), rank)]
    axes = [tirx.Var(name, "int64") for name in names]
    try:
        inspect.signature(fn).bind(*axes)
    except TypeError as error:
        raise ValueError(
            f"{what}: expected a function of {rank} axes, one per dimension of the shape ({error})"
        ) from None
    results = fn(*axes)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for k, result in enumerate(results):
        if isinstance(result, bool) or not (isinstance(result, int) or tvm.ir.is_prim_expr(result)):
            raise TypeError(
                f"{what}: result {k} must be an integer expression, got {script(result)}"
            )
    final = [tirx.IntImm("int64", r) if isinstance(r, int) else r for r in results]
    return IndexMap(axes, final, None)


def extents(shape: Sequence[Any], scope: ExtentScope, what: str = "shape") -> tuple[Int, ...]:
    """Return the extents as terms; raise if one is not a positive integer or an expression."""
    out = []
    for k, expr in enumerate(shape):
        if isinstance(expr, bool) or not (isinstance(expr, int) or tvm.ir.is_prim_expr(expr)):
            raise TypeError(f"{what}[{k}]: expected an int or a TVM expression, got {script(expr)}")
        if not isinstance(expr, int) and not str(expr.ty.dtype).startswith("int"):
            raise TypeError(f"{what}[{k}]: expected an integer expression, got {expr.ty.dtype}")
        poly = integer(expr) if isinstance(expr, int) else as_int(scope.read(expr, {}))
        if poly.const is not None and poly.const < 1:
            raise ValueError(f"{what}[{k}]: expected a positive extent, got {poly.const}")
        out.append(poly)
    return tuple(out)


def convert(
    source: MapLike,
    shape: Sequence[Any],
    predicate: Any = None,
    scope: ExtentScope | None = None,
    what: str = "index_map",
) -> Map:
    """Return the map over the box ``shape``, where ``predicate`` (expression or function) holds.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The arguments do not fit together.
        Unsupported: The analysis does not support an expression.
    """
    scope = scope or ExtentScope()
    sizes = extents(shape, scope)
    tvm_map = index_map(source, len(sizes), what)
    axes = tuple(variable("axis", f"x{k}", e) for k, e in enumerate(sizes))
    env: dict[Any, Term] = {
        tvm_var: ZERO if poly.const == 1 else as_int(var)
        for tvm_var, var, poly in zip(tvm_map.initial_indices, axes, sizes, strict=True)
    }
    if callable(predicate):
        predicate = predicate(*tvm_map.initial_indices)
    if isinstance(predicate, bool):
        predicate = tirx.IntImm("bool", int(predicate))
    if predicate is not None and str(predicate.ty.dtype) != "bool":
        raise TypeError(f"predicate: expected a boolean expression, got {predicate.ty.dtype}")
    results = tuple(as_int(scope.read(e, env)) for e in tvm_map.final_indices)
    where = TRUE if predicate is None else scope.read(predicate, env)
    used = frozenset[Var]().union(free(where), *map(free, (*sizes, *results)))
    pairs = tuple((s, tvm_var) for tvm_var, s in scope.sizes.items() if s in used)
    first = tvm_map.initial_indices[0] if len(sizes) else None
    dtype = "int64" if first is None else str(first.ty.dtype)
    return Map(axes, sizes, results, where, tvm_map, predicate, pairs, dtype)


_CHILDREN = ("a", "b", "value", "condition", "true_value", "false_value", "body")


def children(expr: Any) -> Iterator[Any]:
    """Yield the operands of an expression, in order."""
    if type(expr).__name__ == "Call":
        yield from expr.args
    elif type(expr).__name__ not in ("IntImm", "FloatImm", "StringImm", "Var"):
        for name in _CHILDREN:
            child = getattr(expr, name, None)
            if child is not None:
                yield child


def variables(expr: Any) -> list[Any]:
    """Return the variables of an expression, in order of occurrence."""
    seen: dict[Any, None] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if type(node).__name__ == "Var":
            seen[node] = None
        else:
            stack.extend(children(node))
    return list(seen)
