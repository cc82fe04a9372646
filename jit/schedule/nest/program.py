"""Read a PrimFunc as steps, each a loop nest around updates of elements.

    for i, k:  acc[i] = acc[i] + x[i, k]      axes (i, k), one update of ``acc`` from 0
    for i:     out[i] = acc[i] / 7            axes (i), one update

Variables bound in a block are substituted.
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
        found: NodeDict[None] = NodeDict()
        block = self.stage.block
        for part in (block.init, block.body):
            for expr in [] if part is None else loads(part):
                found[expr.source] = None
        return found

    def plain(self) -> Any:
        """Return the original loop nest without blocks."""
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
    """The steps of a PrimFunc, and the buffers ``inner`` that it allocates."""

    func: Any
    steps: tuple[LoopStep, ...]
    inner: NodeDict[None]
    sizes: SymbolicSizes = UNSAID


class Unscheduled(Exception):
    """A PrimFunc cannot be scheduled; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def program(func: Any, sizes: SymbolicSizes = UNSAID) -> LoopProgram:
    """Return the steps of a PrimFunc; raises `Unscheduled` if it has another form."""
    attrs = func.attrs or {}
    if not bool(attrs.get("tirx.noalias", False)):
        raise Unscheduled("the parameters may overlap: the attribute tirx.noalias is missing")
    try:
        stages, _ = standard(func)
    except Opaque as error:
        raise Unscheduled(error.reason) from None
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
    """Return the updates of a block; none if it does anything else."""
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
    """Return the stores of a body, with bindings substituted; None if it contains anything else."""
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
    """Check that every buffer has one writer, which precedes its readers."""
    written: NodeDict[int] = NodeDict()
    for k, step in enumerate(made.steps):
        for b in step.writes:
            if b in written:
                raise Unscheduled(f"{b.name} is written by several blocks")
            written[b] = k
    for k, step in enumerate(made.steps):
        for b, _ in step.reads.items():
            at = written.get(b)
            if (at is None and b in made.inner) or (at is not None and at > k):
                raise Unscheduled(f"{b.name} is read before it is written")
