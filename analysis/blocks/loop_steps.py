"""A block as a loop nest around updates of elements.

    for i, k:  acc[i] = acc[i] + x[i, k]      axes (i, k), one update of ``acc`` from 0
    for i:     out[i] = acc[i] / 7            axes (i), one update

Variables bound in a block are substituted. Spatial axes may run in any order: no two of their
iterations update the same element. Reduced axes are in the order of their loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ..lifting.effects.effects import Write
from ..lifting.tir.node import NodeDict, items, substitute
from ..terms.term import ONE, TRUE, Var
from .blocks import BlockAccess, Stage
from .tir import Values, integer, loads, loop, seq, static


@dataclass(frozen=True)
class Axis:
    """A block iterator, ranging over ``[0, extent)``."""

    var: Any
    extent: Any
    reduced: bool = False

    @property
    def static(self) -> int | None:
        return static(self.extent)


@dataclass(frozen=True)
class Update:
    """``buffer[indices] = value``; a reduction first sets ``buffer[indices] = init``."""

    buffer: Any
    indices: tuple[Any, ...]
    value: Any
    init: Any | None = None


@dataclass(frozen=True)
class LoopStep:
    """A loop nest; ``updates`` is empty if its body does more than update elements of its own."""

    axes: tuple[Axis, ...]
    updates: tuple[Update, ...]
    stage: Stage

    @property
    def spatial(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if not a.reduced)

    @property
    def reduced(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a.reduced)

    @property
    def writes(self) -> list[Any]:
        return [w.buffer for w in self.stage.writes]

    @property
    def reads(self) -> NodeDict[None]:
        """The buffers that it reads, including its own results."""
        buffers: NodeDict[None] = NodeDict()
        block = self.stage.block
        for part in (block.init, block.body):
            for expr in [] if part is None else loads(part):
                buffers[expr.source] = None
        return buffers

    def plain(self) -> Any:
        """Return the original loop nest without blocks."""
        block, at = self.stage.block, Values()
        pairs = list(
            zip(items(block.iter_vars), items(self.stage.realize.iter_values), strict=True)
        )

        def nest(loops: Sequence[Any]) -> Any:
            if loops:
                first, *others = loops

                def body(var: Any) -> Any:
                    at[first.loop_var] = var
                    return nest(others)

                return loop(first.loop_var.name, first.extent, first.loop_var, body)
            for iterator, value in pairs:
                at[iterator.var] = substitute(value, at)
            body = substitute(block.body, at)
            if block.init is None:
                return body
            reduced = [iterator.var for iterator, _ in pairs if int(iterator.iter_type) == 2]
            start = _all([tirx.EQ(at[var], integer(0, var)) for var in reduced])
            init = substitute(block.init, at)
            return seq([init if start is None else tirx.IfThenElse(start, init, None), body])

        return nest(self.stage.loops)


def built_step(stage: Any) -> LoopStep:
    """Return the loop nest of a block that was built to update elements of its own.

    Its axes are in the order of the block. ``stage`` needs only the attribute ``block``.
    """
    iterators = items(stage.block.iter_vars)
    axes = (Axis(i.var, i.dom.extent, int(i.iter_type) == 2) for i in iterators)
    return LoopStep(tuple(axes), _updates(stage.block), stage)


def loop_step(stage: Stage) -> LoopStep:
    """Return the loop nest of a block."""
    iterators = dict(zip(stage.axes, items(stage.block.iter_vars), strict=True))
    looped = [v for v in dict.fromkeys(v for v, _ in stage.order) if v.kind == "reduce"]
    ordered = [v for v in stage.axes if v not in looped] + looped
    axes = (Axis(iterators[v].var, iterators[v].dom.extent, v.kind == "reduce") for v in ordered)
    return LoopStep(tuple(axes), _updates(stage.block) if _apart(stage) else (), stage)


def _apart(stage: Stage) -> bool:
    """Whether no two spatial iterations store to the same element."""
    spatial = tuple(v for v in stage.axes if v.kind != "reduce" and v.extent is not ONE)
    return all(_determines(access, spatial) for access in stage.writes)


def _determines(access: BlockAccess, spatial: tuple[Var, ...]) -> bool:
    """Whether the element that is stored determines the spatial iteration."""
    index = tuple(p for p in access.indices if p is not None)
    whole = len(index) == len(access.indices)
    return whole and set(Write(spatial, TRUE, index, TRUE).inverse) == set(spatial)


def _updates(block: Any) -> tuple[Update, ...]:
    """Return the updates of a block; none if it does anything else."""
    body, first = _stores(block.body), [] if block.init is None else _stores(block.init)
    if body is None or first is None:
        return ()
    inits: NodeDict[Any] = NodeDict()
    for store in first:
        inits[store.buffer] = store
    updates: list[Update] = []
    for store in body:
        init = inits.get(store.buffer)
        index = tuple(items(store.indices))
        if init is not None and not _same(index, items(init.indices)):
            return ()
        start = None if init is None else init.value
        updates.append(Update(store.buffer, index, store.value, start))
    distinct = len({u.buffer.__chandle__() for u in updates}) == len(updates)
    return tuple(updates) if distinct and (not first or len(first) == len(updates)) else ()


def _stores(body: Any) -> list[Any] | None:
    """Return the stores of a body, with bindings substituted; None if it contains anything else."""
    at, stores = Values(), []
    for stmt in items(body.seq) if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(stmt, tirx.stmt.Bind):
            at[stmt.var] = substitute(stmt.value, at)
        elif isinstance(stmt, tirx.BufferStore):
            stores.append(substitute(stmt, at))
        else:
            return None
    return stores


def _same(a: tuple[Any, ...], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        tvm_ffi.structural_equal(x, y) for x, y in zip(a, b, strict=True)
    )


def _all(conditions: list[Any]) -> Any:
    out = None
    for condition in conditions:
        out = condition if out is None else tirx.And(out, condition)
    return out
