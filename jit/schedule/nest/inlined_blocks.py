"""Inline blocks into their readers.

for i: t[i] = x[i] + b      for i: u[i] = t[i] * sigmoid(t[i])
u[i] = v * sigmoid(v)  with  v = x[i] + b        v is computed once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.blocks import Stage
from ....analysis.blocks.definitions import BlockDefinition, resolve
from ....analysis.blocks.inline import Use, inlinable
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.terms.flat import volume
from .program import LoopProgram, LoopStep
from .tir import calls, is_guard

Let = tuple[Any, Any]  # a variable and its value


def inline_blocks(program: LoopProgram) -> tuple[list[LoopStep], NodeDict[BlockDefinition]]:
    """Return the remaining steps, and the definitions of the inlined buffers."""
    stages = [s.stage for s in program.steps]
    remaining, definitions = resolve(stages, inlinable(stages, program.inner, _profitable))
    kept = {id(s) for s in remaining}
    return [s for s in program.steps if id(s.stage) in kept], definitions


def _profitable(stage: Stage, definition: BlockDefinition, uses: Sequence[Use]) -> bool:
    """Return whether to inline a definition: a copy, or one not evaluated more often in readers.

    A definition that calls a function is not inlined into two loop nests.
    """
    elements = volume(stage.writes[0].shape)
    no_more = all(u.evaluations is elements for u in uses)
    together = len({u.stage for u in uses}) <= 1
    return _moves(definition.value) or (no_more and (together or not calls(definition.value)))


def _moves(value: Any) -> bool:
    """Return whether a value is an element of another buffer or a literal."""
    if isinstance(value, tvm.ir.TensorLoad):
        return not any(isinstance(e, tvm.ir.TensorLoad) for i in items(value.indices)
                       for e in _nodes(i))  # fmt: skip
    return isinstance(value, (tirx.IntImm, tirx.FloatImm))


def _nodes(expr: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expr, nodes.append)
    return nodes


class Expander:
    """Expands loads of inlined buffers; values outside guards are bound to variables."""

    def __init__(self, definitions: NodeDict[BlockDefinition]) -> None:
        self.definitions = definitions
        self.lets: list[Let] = []
        self.expanded: list[tuple[Any, tuple[Any, ...], Any]] = []
        self.guarded = 0
        self.rules = [
            (tvm.ir.TensorLoad, self.load),
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
    if isinstance(value, (tvm.ir.TensorLoad, tirx.IntImm, tirx.FloatImm)):
        return False
    if str(value.ty.dtype).startswith(("float", "bfloat")):
        return True
    return all(str(getattr(getattr(e, "ty", None), "dtype", "")) != "bool" for e in _nodes(value))


def _equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(tvm_ffi.structural_equal(x, y) for x, y in zip(a, b, strict=True))
