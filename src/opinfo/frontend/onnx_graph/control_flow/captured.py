"""What the body of a loop reads from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ..values import ListValue, NotConvertible, TensorValue


@dataclass
class OuterValues:
    """Values from outside a function.

    Attributes:
        scope: Values by name that the function may use as they are: constants and sizes.
        exprs: Expressions by name that become parameters.
        symbols: The symbols in any of them, in order of their names.
    """

    scope: dict[str, Any]
    exprs: dict[str, Any]
    symbols: list[Any]


def outside(values: Mapping[str, Any], states: Iterable[Any]) -> OuterValues:
    """Return what a function reads, given the values by name and the tensors of its states."""
    scope: dict[str, Any] = {}
    exprs: dict[str, Any] = {}
    symbols: set[Any] = set()
    for name, value in values.items():
        if isinstance(value, ListValue):
            raise NotConvertible("its body reads a sequence, expected tensors")
        if value is None or value.is_constant:
            scope[name] = value
        elif value.elements is not None:  # a variable that holds them is not visible inside
            scope[name] = TensorValue(value.dtype, value.elements)
            symbols |= symbols_of(getattr(x, "top", x) for x in value.elements.reshape(-1))
        else:
            exprs[name] = value.expr
    symbols |= symbols_of(expr.ty for expr in [*exprs.values(), *states])
    return OuterValues(scope, exprs, sorted(symbols, key=str))


def names(graph: Any) -> Iterable[str]:
    """Yield the names that a graph and those in its nodes read."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from names(attribute.g)


def defined(graph: Any) -> Iterable[str]:
    """Yield the names that a graph itself defines."""
    yield from (value.name for value in (*graph.input, *graph.initializer))
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output)


def symbols_of(items: Iterable[Any]) -> set[Any]:
    """Return the symbols in tensor types and sizes."""
    symbols: set[Any] = set()
    for item in items:
        dims: Sequence[Any] = item.shape.values if isinstance(item, relax.TensorType) else [item]
        for dim in dims:
            if isinstance(dim, tvm.ir.Expr):
                tvm_ffi.structural_walk(dim, (tvm.ir.Var, symbols.add))
    return symbols
