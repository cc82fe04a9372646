"""Expressions in which loads of inlined buffers are replaced by the buffers' definitions.

u[i] = t[i] * sigmoid(t[i])  with  t[i] = x[i] + b
u[i] = v * sigmoid(v)  with  v = x[i] + b        v is computed once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..lifting.tir.node import NodeDict, items
from ..support.tvm_compat import TensorLoad
from .definitions import BlockDefinition
from .tir import is_guard

Let = tuple[Any, Any]  # a variable and its value


class Expander:
    """Expands loads of inlined buffers; values outside guards are bound to variables."""

    def __init__(self, definitions: NodeDict[BlockDefinition]) -> None:
        self.definitions = definitions
        self.lets: list[Let] = []
        self.expanded: list[tuple[Any, tuple[Any, ...], Any]] = []
        self.guarded = 0
        self.rules = [
            (TensorLoad, self.load),
            (tvm.ir.Call, self.call),
            (tirx.Select, self.select),
        ]

    def __call__(self, expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, self.rules)

    def call(self, expr: Any, mutator: Any) -> Any:
        return self.guard(expr, mutator) if is_guard(expr) else mutator.default_mutate(expr)

    def select(self, expr: Any, mutator: Any) -> Any:
        return self.guard(expr, mutator)

    def guard(self, expr: Any, mutator: Any) -> Any:
        self.guarded += 1
        try:
            return mutator.default_mutate(expr)
        finally:
            self.guarded -= 1

    def load(self, expr: Any, mutator: Any) -> Any:
        definition = self.definitions.get(expr.source)
        if definition is None:
            return mutator.default_mutate(expr)
        index = tuple(mutator.mutate(i) for i in items(expr.indices))
        for buffer, at, value in self.expanded:
            if buffer.same_as(expr.source) and _equal(at, index):
                return value
        value = self(definition.at(index))
        if self.guarded or not _named(value):
            return value
        var = tirx.Var("t", str(value.ty.dtype))
        self.lets.append((var, value))
        self.expanded.append((expr.source, index, var))
        return var


def _named(value: Any) -> bool:
    """Return whether to bind a value to a variable.

    TVM's analyzer inspects bound integers, and fails on vectors of bool.
    """
    if isinstance(value, (TensorLoad, tirx.IntImm, tirx.FloatImm)):
        return False
    if str(value.ty.dtype).startswith(("float", "bfloat")):
        return True
    return all(str(getattr(getattr(e, "ty", None), "dtype", "")) != "bool" for e in _nodes(value))


def _equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(tvm_ffi.structural_equal(x, y) for x, y in zip(a, b, strict=True))


def _nodes(expr: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expr, nodes.append)
    return nodes
