"""Blocks that define an inner buffer, each element once by one expression.

A reader of the buffer may evaluate the expression instead, until something that it reads is
written:

    for i: t[i] = f(x[i])        t[p] is f(x[p])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..lifting.tir.node import NodeDict, as_dtype, items, substitute
from ..support.tvm_compat import TensorLoad, source_of
from ..terms.term import ONE
from .blocks import Stage


class Undefined(Exception):
    """A buffer may differ from its definition at the point where it is read."""


@dataclass(frozen=True)
class BlockDefinition:
    """``iterators`` are the block's variables by coordinate, or None; these and ``units`` are 0."""

    buffer: Any
    iterators: tuple[Any, ...]
    units: tuple[Any, ...]
    value: Any

    def at(self, index: Sequence[Any]) -> Any:
        """Return the value of the element at an index."""
        places = NodeDict[Any]()
        for var in self.units:
            places[var] = tirx.IntImm(str(var.ty.dtype), 0)
        for var, coordinate in zip(self.iterators, index, strict=True):
            if var is not None:
                places[var] = as_dtype(coordinate, str(var.ty.dtype))
        return substitute(self.value, places)


def definition(stage: Stage) -> BlockDefinition | None:
    """Return the definition that a block computes, or None if it computes something else."""
    store = stage.block.body
    plain = isinstance(store, tirx.BufferStore) and stage.block.init is None
    if stage.reduced or not plain:
        return None
    value, (written,) = store.value, stage.writes
    if value.ty.dtype != store.buffer.ty.dtype or loads(value).get(store.buffer):
        return None
    axes = NodeDict[Any]()
    for iv, var in zip(items(stage.block.iter_vars), stage.axes, strict=True):
        axes[iv.var] = var
    iterators: list[Any] = []
    for expr, extent in zip(items(store.indices), written.shape, strict=True):
        axis = axes.get(expr) if isinstance(expr, tvm.ir.Var) else None
        if (
            axis is not None
            and axis.extent is extent
            and not any(expr.same_as(x) for x in iterators)
        ):
            iterators.append(expr)
        elif extent is ONE:
            iterators.append(None)
        else:
            return None
    remaining = [
        iterator
        for iterator, _ in axes.items()
        if not any(iterator.same_as(x) for x in iterators if x is not None)
    ]
    if any(axes[iterator].extent is not ONE for iterator in remaining):
        return None
    return BlockDefinition(store.buffer, tuple(iterators), tuple(remaining), value)


def loads(*nodes: Any) -> NodeDict[int]:
    """Return the number of loads of each buffer."""
    counts = NodeDict[int]()

    def note(expr: Any) -> None:
        buffer = source_of(expr)
        counts[buffer] = (counts.get(buffer) or 0) + 1

    for node in nodes:
        if node is not None:
            tvm_ffi.structural_walk(node, (TensorLoad, note))
    return counts


def resolve(
    stages: Sequence[Stage], buffers: Sequence[Any]
) -> tuple[list[Stage], NodeDict[BlockDefinition]]:
    """Return the blocks that remain without some inner buffers, and the buffers' definitions.

    Raises:
        Undefined: A read of such a buffer may differ from its definition there. It must be written
            before, by one block, and nothing that it depends on may be written since.
    """
    dropped = NodeDict[None]()
    for buffer in buffers:
        dropped[buffer] = None
    remaining: list[Stage] = []
    definitions = NodeDict[BlockDefinition]()
    depends = NodeDict[set[int]]()
    stale: set[int] = set()
    for stage in stages:
        written = {a.buffer.__chandle__() for a in stage.writes}
        stale |= {b.__chandle__() for b, on in depends.items() if on & written}
        on: set[int] = set()
        for buffer, _ in loads(stage.block.init, stage.block.body).items():
            if buffer not in dropped:
                on.add(buffer.__chandle__())
            elif buffer not in depends or buffer.__chandle__() in stale:
                raise Undefined(f"{buffer.name} may differ from its definition where it is read")
            else:
                on |= depends[buffer]
        if not any(a.buffer in dropped for a in stage.writes):
            remaining.append(stage)
            continue
        new = definition(stage)
        if new is None or new.buffer in definitions:
            raise Undefined(f"{stage.writes[0].buffer.name} has no definition")
        definitions[new.buffer], depends[new.buffer] = new, on
    return remaining, definitions
