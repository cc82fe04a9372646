"""The statements of a block as terms over logical buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...analysis.blocks.block_terms import BlockEnv, SizeTerms
from ...analysis.blocks.blocks import Stage
from ...analysis.blocks.definitions import BlockDefinition
from ...analysis.lifting.tir.from_tir import ExpressionReader
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.terms.term import (
    ZERO,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    load,
    raw_call,
)
from .paired_buffers import Disagree, Index


class BlockStatements:
    """The statements of a block as nested tuples of terms, over logical buffers."""

    def __init__(
        self,
        stage: Stage,
        at: Mapping[Var, Int],
        sizes: SizeTerms,
        find: Callable[[Any], Any],
        logical: Callable[[Any, Index], tuple[TensorVar, Index]],
        defined: NodeDict[BlockDefinition] | None = None,
    ) -> None:
        self.sizes, self.defined = sizes, defined or NodeDict()
        self.env = BlockEnv(sizes.env)
        for iv, var in zip(items(stage.block.iter_vars), stage.axes, strict=True):
            self.env.axes[iv.var] = at[var]
        self.find, self.logical = find, logical
        self.reader = ExpressionReader(self.env, self.read)
        self.values: list[Term] = []

    def read(self, buffer: Any, index: Index) -> Term:
        definition = self.defined.get(buffer)
        if definition is None:
            return load(*self.place(buffer, index))
        env = BlockEnv(self.sizes.env)
        for iterator in definition.units:
            env.axes[iterator] = ZERO
        for iterator, poly in zip(definition.iterators, index, strict=True):
            if iterator is not None:
                env.axes[iterator] = poly
        return ExpressionReader(env, self.read)(definition.value)

    def place(self, buffer: Any, index: Index) -> tuple[TensorVar, Index]:
        entry = self.find(buffer)
        if entry is None:
            raise Disagree(f"{buffer.name} has no counterpart")
        return self.logical(entry, index)

    def __call__(self, stmt: Any) -> tuple[Any, ...]:
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            return (kind, *(self(part) for part in items(stmt.seq)))
        if kind == "BufferStore":
            where = self.place(stmt.buffer, tuple(map(self.reader.index, items(stmt.indices))))
            return (kind, where, self.value(stmt.value))
        if kind == "IfThenElse":
            else_case = () if stmt.else_case is None else self(stmt.else_case)
            return (kind, self.value(stmt.condition), self(stmt.then_case), else_case)
        if kind == "Bind":
            value = self.value(stmt.value)  # evaluated here: a store may follow before it is used
            name = f"bound{len(self.values)}"
            bound = raw_call(name, (), value.dtype)
            self.env.axes[stmt.var] = as_int(bound) if isinstance(value, Int) else bound
            return (kind, value)
        raise Disagree(f"unsupported statement {kind}")

    def value(self, expr: Any) -> Term:
        self.values.append(self.reader(expr))
        return self.values[-1]
