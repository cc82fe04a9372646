"""A PrimFunc as steps: each a loop nest around updates of elements, in TIR's standard form.

    for i, k:  acc[i] = acc[i] + x[i, k]      axes (i, k), one update of ``acc`` from 0
    for i:     out[i] = acc[i] / 7            axes (i), one update

What a block binds is put in where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.blocks import Opaque, Stage, standard
from ....analysis.lifting.tir.node import NodeDict, items, substitute
from .symbolic_sizes import UNSAID, SymbolicSizes
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
    """``buffer[indices] = value``, after ``buffer[indices] = init`` where it is reduced."""

    buffer: Any
    indices: tuple[Any, ...]
    value: Any
    init: Any | None = None


@dataclass(frozen=True)
class LoopStep:
    """A loop nest; ``updates`` is empty where its body is more than updates."""

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
        """The buffers that are read, its own results among them."""
        found: NodeDict[None] = NodeDict()
        block = self.stage.block
        for part in (block.init, block.body):
            for e in [] if part is None else loads(part):
                found[e.source] = None
        return found

    def plain(self) -> Any:
        """The loop nest as it was, without blocks."""
        block = self.stage.block
        reduced = [a for a in self.axes if a.reduced]

        def nest(left: tuple[Axis, ...], at: Values) -> Any:
            if left:
                first = left[0]
                return loop(first.var.name, first.extent, first.var,
                            lambda v: nest(left[1:], _with(at, first.var, v)))  # fmt: skip
            body = substitute(block.body, at)
            if block.init is None:
                return body
            start = _all([tirx.EQ(at[a.var], integer(0, a.var)) for a in reduced])
            init = substitute(block.init, at)
            return seq([init if start is None else tirx.IfThenElse(start, init, None), body])

        return nest(self.axes, Values())


@dataclass(frozen=True)
class LoopProgram:
    """The steps of a PrimFunc; ``inner`` are the buffers that it allocates."""

    func: Any
    steps: tuple[LoopStep, ...]
    inner: NodeDict[None]
    sizes: SymbolicSizes = UNSAID


class Unscheduled(Exception):
    """Why a PrimFunc has no schedule."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def program(func: Any, sizes: SymbolicSizes = UNSAID) -> LoopProgram:
    """The steps of a PrimFunc, of symbolic ``sizes``. Raises `Unscheduled`."""
    attrs = func.attrs or {}
    if not bool(attrs.get("tirx.noalias", False)):
        raise Unscheduled("the parameters may overlap: the function has no tirx.noalias")
    try:
        stages, _ = standard(func)
    except Opaque as e:
        raise Unscheduled(e.reason) from None
    inner: NodeDict[None] = NodeDict()
    for b in items(func.body.block.alloc_buffers):
        inner[b] = None
    made = LoopProgram(func, tuple(map(_step, stages)), inner, sizes)
    _pure(made)
    return made


def _step(stage: Stage) -> LoopStep:
    axes = tuple(
        Axis(iv.var, iv.dom.extent, int(iv.iter_type) == 2) for iv in items(stage.block.iter_vars)
    )
    return LoopStep(axes, _updates(stage.block), stage)


def _updates(block: Any) -> tuple[Update, ...]:
    """The updates of a block; none if it does something else than update elements."""
    body, first = _stores(block.body), [] if block.init is None else _stores(block.init)
    if body is None or first is None:
        return ()
    inits: NodeDict[Any] = NodeDict()
    for s in first:
        inits[s.buffer] = s
    found: list[Update] = []
    for s in body:
        init = inits.get(s.buffer)
        index = tuple(items(s.indices))
        if init is not None and not _same(index, items(init.indices)):
            return ()
        found.append(Update(s.buffer, index, s.value, None if init is None else init.value))
    apart = len({u.buffer.__chandle__() for u in found}) == len(found)
    return tuple(found) if apart and (not first or len(first) == len(found)) else ()


def _stores(body: Any) -> list[Any] | None:
    """The stores of a body with what is bound put in; None where there is something else."""
    at, found = Values(), []
    for s in items(body.seq) if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(s, tirx.stmt.Bind):
            at[s.var] = substitute(s.value, at)
        elif isinstance(s, tirx.BufferStore):
            found.append(substitute(s, at))
        else:
            return None
    return found


def _same(a: tuple[Any, ...], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        tvm_ffi.structural_equal(x, y) for x, y in zip(a, b, strict=True)
    )


def _with(at: Values, v: Any, value: Any) -> Values:
    return values(*at.items(), (v, value))


def _all(conditions: list[Any]) -> Any:
    out = None
    for c in conditions:
        out = c if out is None else tirx.And(out, c)
    return out


def _pure(made: LoopProgram) -> None:
    """Every buffer has one writer, which comes before its readers."""
    written: NodeDict[int] = NodeDict()
    for k, s in enumerate(made.steps):
        for b in s.writes:
            if b in written:
                raise Unscheduled(f"{b.name} is written by several stages")
            written[b] = k
    for k, s in enumerate(made.steps):
        for b, _ in s.reads.items():
            at = written.get(b)
            if (at is None and b in made.inner) or (at is not None and at > k):
                raise Unscheduled(f"{b.name} is read before it is written")
