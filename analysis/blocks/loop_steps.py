"""A block as a loop nest around updates of elements.

    for i, k:  acc[i] = acc[i] + x[i, k]      axes (i, k), one update of ``acc`` from 0
    for i:     out[i] = acc[i] / 7            axes (i), one update

Variables bound in a block are substituted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ..lifting.tir.node import NodeDict, items, substitute
from .blocks import Stage
from .tir import Values, integer, loads, loop, seq, static, values


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
    """A loop nest; ``updates`` is empty if its body does more than update elements."""

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
        block = self.stage.block
        reduced = [a for a in self.axes if a.reduced]

        def nest(axes: tuple[Axis, ...], at: Values) -> Any:
            if axes:
                first = axes[0]
                return loop(first.var.name, first.extent, first.var,
                            lambda v: nest(axes[1:], _with(at, first.var, v)))  # fmt: skip
            body = substitute(block.body, at)
            if block.init is None:
                return body
            start = _all([tirx.EQ(at[a.var], integer(0, a.var)) for a in reduced])
            init = substitute(block.init, at)
            return seq([init if start is None else tirx.IfThenElse(start, init, None), body])

        return nest(self.axes, Values())


def loop_step(stage: Stage) -> LoopStep:
    """Return the loop nest of a block."""
    axes = tuple(
        Axis(iv.var, iv.dom.extent, int(iv.iter_type) == 2) for iv in items(stage.block.iter_vars)
    )
    return LoopStep(axes, _updates(stage.block), stage)


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


def _with(at: Values, var: Any, value: Any) -> Values:
    return values(*at.items(), (var, value))


def _all(conditions: list[Any]) -> Any:
    out = None
    for condition in conditions:
        out = condition if out is None else tirx.And(out, condition)
    return out
