"""Stages that only define an inner buffer, each element once by one expression.

Its reader may as well evaluate the expression, until something that it reads is written:

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
    """Why a buffer is not what its definition says where it is read."""


@dataclass(frozen=True)
class BlockDefinition:
    """``iterators`` are the block's variables by coordinate; None and ``units`` are always 0."""

    buffer: Any
    iterators: tuple[Any, ...]
    units: tuple[Any, ...]
    value: Any

    def at(self, index: Sequence[Any]) -> Any:
        """The value of the element at an index."""
        places = NodeDict[Any]()
        for v in self.units:
            places[v] = tirx.IntImm(str(v.ty.dtype), 0)
        for v, i in zip(self.iterators, index, strict=True):
            if v is not None:
                places[v] = as_dtype(i, str(v.ty.dtype))
        return substitute(self.value, places)


def definition(stage: Stage) -> BlockDefinition | None:
    """What a stage defines, None if it does something else."""
    store = stage.block.body
    plain = isinstance(store, tirx.BufferStore) and stage.block.init is None
    if stage.reduced or not plain:
        return None
    value, (written,) = store.value, stage.writes
    if value.ty.dtype != store.buffer.ty.dtype or loads(value).get(store.buffer):
        return None
    axes = NodeDict[Any]()
    for iv, axis in zip(items(stage.block.iter_vars), stage.axes, strict=True):
        axes[iv.var] = axis
    found: list[Any] = []
    for e, extent in zip(items(store.indices), written.shape, strict=True):
        v = axes.get(e) if isinstance(e, tvm.ir.Var) else None
        if v is not None and v.extent is extent and not any(e.same_as(x) for x in found):
            found.append(e)
        elif extent is ONE:
            found.append(None)
        else:
            return None
    rest = [x for x, _ in axes.items() if not any(x.same_as(y) for y in found if y is not None)]
    if any(axes[x].extent is not ONE for x in rest):
        return None
    return BlockDefinition(store.buffer, tuple(found), tuple(rest), value)


def loads(*nodes: Any) -> NodeDict[int]:
    """How often each buffer is loaded from."""
    found = NodeDict[int]()

    def note(e: Any) -> None:
        buffer = source_of(e)
        found[buffer] = (found.get(buffer) or 0) + 1

    for node in nodes:
        if node is not None:
            tvm_ffi.structural_walk(node, (TensorLoad, note))
    return found


def resolved(
    stages: Sequence[Stage], buffers: Sequence[Any]
) -> tuple[list[Stage], NodeDict[BlockDefinition]]:
    """The stages that stay without some buffers inside the function, and their definitions.

    Raises `Undefined` unless every read of such a buffer gives what its definition is worth
    there: it is written before, by one stage, and nothing that it depends on is written since.
    """
    dropped = NodeDict[None]()
    for b in buffers:
        dropped[b] = None
    left: list[Stage] = []
    found = NodeDict[BlockDefinition]()
    depends = NodeDict[set[int]]()
    stale: set[int] = set()
    for s in stages:
        written = {a.buffer.__chandle__() for a in s.writes}
        stale |= {b.__chandle__() for b, on in depends.items() if on & written}
        on: set[int] = set()
        for b, _ in loads(s.block.init, s.block.body).items():
            if b not in dropped:
                on.add(b.__chandle__())
            elif b not in depends or b.__chandle__() in stale:
                raise Undefined(f"{b.name} may hold something else than its definition")
            else:
                on |= depends[b]
        if not any(a.buffer in dropped for a in s.writes):
            left.append(s)
            continue
        made = definition(s)
        if made is None or made.buffer in found:
            raise Undefined(f"{s.writes[0].buffer.name} has no definition")
        found[made.buffer], depends[made.buffer] = made, on
    return left, found
