"""A block's statements over new iterators and buffers.

Indices that are terms are written in normal form; in those that depend on data, iterators and
buffers are substituted.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.index_map.maps.from_terms import Emitter
from ...analysis.index_map.maps.to_terms import Unsupported
from ...analysis.lifting.tir.from_tir import ExpressionReader
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.support.ir.call_ops import op_name
from ...analysis.support.tvm_compat import TensorLoad, access_key, source_of, sym
from ...analysis.terms.term import ZERO, Int, Var
from ...analysis.terms.traversal import ints
from ..access.inner_layouts import Layouts
from ..model.extents import literal, term
from .nest import BlockNest

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def _plain(value: Int) -> bool:
    """Whether an old iterator is a new one, or a number; then nothing can be simplified."""
    return value.const is not None or isinstance(value.atom, Var)


class _NodeSignature(inspect.Signature):
    """The signature ``(node, mutator)``."""

    def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        if len(args) != 2 or kwargs:
            raise TypeError("expected a node and the mutator")
        return inspect.BoundArguments(self, OrderedDict())


class NodeCallback:
    """A callback with a fixed signature; inspecting a method costs more than all of its calls."""

    __signature__ = _NodeSignature()

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, node: Any, mutator: Any) -> Any:
        return self.function(node, mutator)


class Body:
    """Rewrites the statements of one block.

    ``leaves`` are the expressions of new iterators and sizes, ``buffers`` the new buffers; those
    in ``stored`` are only accessed at the nest's ``place``.
    """

    def __init__(
        self,
        nest: BlockNest,
        stored: NodeDict[None],
        layouts: Layouts,
        buffers: NodeDict[Any],
        leaves: Mapping[Var, Any],
        old: Mapping[Var, Any],
        reader: ExpressionReader,
        shapes: NodeDict[tuple[Int, ...]],
        dtype: str,
    ) -> None:
        self.nest, self.layouts, self.buffers = nest, layouts, buffers
        self.stored = stored
        self.leaves, self.reader, self.shapes, self.dtype = leaves, reader, shapes, dtype
        self.index = Emitter(leaves, dtype)
        self.values = NodeDict[Any]()
        for var, variable in old.items():
            self.values[variable] = self.index(nest.at[var])
        self.simple = all(_plain(nest.at[v]) for v in old)
        self.rules = [
            (TensorLoad, NodeCallback(self.load)),
            (tirx.BufferStore, NodeCallback(self.store)),
            (tvm.ir.Var, NodeCallback(self.variable)),
        ]
        if not self.simple:
            comparison = NodeCallback(self.comparison)
            self.rules += [(k, comparison) for k in _COMPARISONS]
            self.rules += [
                (tirx.Cast, NodeCallback(self.cast)),
                (tvm.ir.Call, NodeCallback(self.call)),
            ]
        self.loads = 0  # so far
        self.touched: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})

    def __call__(self, node: Any) -> Any:
        return tvm_ffi.structural_mutate(node, self.rules)

    @cached_property
    def analyzer(self) -> Any:
        """An analyzer for expressions that are not terms."""
        analyzer = sym.Analyzer()
        for var, expr in self.leaves.items():
            if var.extent is not None:
                zero = tirx.IntImm(self.dtype, 0)  # a plain 0 would be an int32
                analyzer.bind(expr, tvm.ir.Range(zero, self.index(var.extent)))
        return analyzer

    # ------------------------------------------------------------------ nodes

    def variable(self, var: Any, _: Any) -> Any:
        value = self.values.get(var)
        return var if value is None else value

    def load(self, expr: Any, mutator: Any) -> Any:
        index = self.place(source_of(expr), expr.indices, mutator)
        return self.access(0, self.buffers[source_of(expr)], index)

    def store(self, stmt: Any, mutator: Any) -> Any:
        index = self.place(stmt.buffer, stmt.indices, mutator)
        load = self.access(1, self.buffers[stmt.buffer], index)
        return tirx.BufferStore(source_of(load), mutator.mutate(stmt.value), index)

    def access(self, k: int, buffer: Any, index: Sequence[Any]) -> Any:
        """The load, recorded for the block's regions."""
        self.loads += 1
        load = tirx.BufferLoad(buffer, index)
        self.touched[k].setdefault(access_key(load), load)
        return load

    def place(self, buffer: Any, indices: Any, mutator: Any) -> list[Any]:
        """The physical indices of an access."""
        if buffer in self.stored and self.nest.place is not None:
            return [self.index(p) for p in self.nest.place]
        layout, old = self.layouts[buffer], items(indices)
        index_terms = [self.read(i) for i in old]
        if layout.is_identity:
            return [
                self.logical_index(*pair, mutator) for pair in zip(index_terms, old, strict=True)
            ]
        shape = literal(self.shapes[buffer])
        terms = [ZERO if t is None else t for t in index_terms]
        places = [self.written(term(p)) for p in layout.forward(terms, shape)]
        by_data = {a for a, t in enumerate(index_terms) if t is None}
        if not by_data and all(p is not None for p in places):
            return places
        logical = [
            self.logical_index(*pair, mutator) for pair in zip(index_terms, old, strict=True)
        ]
        extents = [self.index(term(e)) if isinstance(e, Int) else e for e in shape]
        plain = layout.forward(logical, extents)
        mixed = [not by_data.isdisjoint(d.axis for d in dim) for dim in layout.dims]
        return [q if unknown or p is None else p
                for p, q, unknown in zip(places, plain, mixed, strict=True)]  # fmt: skip

    def read(self, expr: Any) -> Int | None:
        """The term of an index over the new iterators."""
        try:
            return ints(self.reader.index(expr), self.nest.at)
        except Unliftable:
            return None

    def written(self, poly: Int) -> Any:
        """The expression of a term; None if TVM cannot express it."""
        try:
            return self.index(poly)
        except Unsupported:
            return None

    def logical_index(self, poly: Int | None, expr: Any, mutator: Any) -> Any:
        """A logical index; one that depends on data is only substituted, as it may have floats."""
        new = None if poly is None else self.written(poly)
        return mutator.mutate(expr) if new is None else new

    # ------------------------------------------------------------------ simplification

    def comparison(self, expr: Any, mutator: Any) -> Any:
        loads = self.loads
        new = mutator.default_mutate(expr)
        if str(expr.a.ty.dtype) != self.dtype or self.loads > loads:
            return new
        return self.analyzer.simplify(new)

    def cast(self, expr: Any, mutator: Any) -> Any:
        loads = self.loads
        new = mutator.default_mutate(expr)
        plain = str(expr.value.ty.dtype) != self.dtype or type(new).__name__ != "Cast"
        if plain or self.loads > loads:
            return new
        return tirx.Cast(str(new.ty.dtype), self.analyzer.simplify(new.value))

    def call(self, expr: Any, mutator: Any) -> Any:
        """A selection whose condition became a literal is one of its branches."""
        if op_name(expr).rpartition(".")[2] != "if_then_else":
            return mutator.default_mutate(expr)
        loads = self.loads
        condition = mutator.mutate(expr.args[0])
        if self.loads == loads:
            condition = self.analyzer.simplify(condition)
        if type(condition).__name__ == "IntImm":
            return mutator.mutate(expr.args[1 if int(condition) else 2])
        return tirx.if_then_else(
            condition, mutator.mutate(expr.args[1]), mutator.mutate(expr.args[2])
        )
