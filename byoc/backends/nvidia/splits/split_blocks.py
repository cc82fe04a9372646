"""The two blocks of a reduction that is divided into parts, over buffers of partial results.

Before: for i, k: s[i] = s[i] + x[i, k]
After:  for i, p, t: part[i, p] = part[i, p] + x[i, p * m + t]
        for i, p: s[i] = s[i] + part[i, p]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis, LoopStep, Update
from .....analysis.blocks.tir import Values, dtype_of, integer, loads, seq, static
from .....analysis.lifting.tir.node import as_dtype, items, substitute
from ..schedules.program.combiners import Combination, combinations
from .deviations import Deviations
from .split_plan import SplitPlan


@dataclass(frozen=True)
class SplitBlocks:
    """``first`` writes ``parts`` from what is read; ``second`` the results from the parts."""

    first: Any
    second: Any
    parts: tuple[Any, ...]


def split_blocks(step: LoopStep, plan: SplitPlan, around: Deviations | None = None) -> SplitBlocks:
    """Return the blocks of a reduction that is divided by a plan.

    Sums of halves have partial results in float32, and are rounded once. ``around``: the terms are
    squared deviations from a mean; those of a part are from the mean of the part.

    Raises:
        NoGpuSchedule: The reduction may not be reassociated.
    """
    cut, together = _Cut(step, plan, around), combinations(step)
    parts = [[tirx.decl_buffer(cut.shape(), t, name=f"{u.buffer.name}_part")
              for u, t in zip(c.updates, c.dtypes, strict=True)] for c in together]  # fmt: skip
    first = cut.first(together, parts)
    second = cut.second(together, parts)
    return SplitBlocks(first, seq(second), tuple(b for buffers in parts for b in buffers))


class _Cut:
    """The axes of both blocks."""

    def __init__(self, step: LoopStep, plan: SplitPlan, around: Deviations | None) -> None:
        self.step, self.plan, self.around = step, plan, around
        self.digits = {id(a): d for a, d in zip(step.reduced, plan.digits, strict=True)}

    def is_across(self, axis: Axis) -> bool:
        return any(axis is a for a in self.plan.across)

    def size(self, axis: Axis) -> int:
        """The extent of a part's axis: that of a spatial axis, or a number of parts."""
        whole = not axis.reduced or self.is_across(axis)
        return (static(axis.extent) or 1) if whole else self.digits[id(axis)]

    def shape(self) -> list[Any]:
        return [integer(self.size(a), a.var) for a in self.plan.order]

    def first(self, together: Sequence[Combination], parts: Sequence[Sequence[Any]]) -> Any:
        """The block of partial results."""
        at, axes, place, inside = Values(), [], [], None
        for axis in self.plan.order:
            var = tirx.Var(axis.var.name, dtype_of(axis.var))
            axes.append(Axis(var, integer(self.size(axis), var)))
            at[axis.var] = var
            place.append(var)
        for axis in self.step.reduced:
            count, extent = self.digits[id(axis)], static(axis.extent) or 1
            if self.is_across(axis) or count == extent > 1:
                continue
            each = -(-extent // count)
            var = tirx.Var(f"{axis.var.name}_in", dtype_of(axis.var))
            axes.append(Axis(var, integer(each, var), reduced=True))
            at[axis.var] = at[axis.var] * integer(each, var) + var if count > 1 else var
            if each * count != extent:
                inside = at[axis.var] < integer(extent, var)
        terms = [[guarded(inside, substitute(e, at), s)
                  for e, s in zip(c.terms, c.starts, strict=True)] for c in together]  # fmt: skip
        if self.around is not None:
            terms = [[self.around.of_part(at, place)]]
        return updating(axes, together, parts, place, terms)

    def second(self, together: Sequence[Combination], parts: Sequence[Sequence[Any]]) -> list[Any]:
        """The blocks that combine parts: in buffers of the accumulators' types, then rounded."""
        axes, at = [], Values()
        for axis in [*self.step.spatial, *(a for a in self.plan.order if a.reduced)]:
            var = tirx.Var(axis.var.name, dtype_of(axis.var))
            axes.append(Axis(var, integer(self.size(axis), var), axis.reduced))
            at[axis.var] = var
        at_part = [at[a.var] for a in self.plan.order]
        terms = [[tirx.BufferLoad(b, at_part) for b in buffers] for buffers in parts]
        if self.around is not None:
            terms = [[self.around.of_means(at, terms[0][0], at_part)]]
        results = [[accumulated(u, t) for u, t in zip(c.updates, c.dtypes, strict=True)]
                   for c in together]  # fmt: skip
        place = [substitute(i, at) for i in together[0].updates[0].indices]
        out = [updating(axes, together, results, place, terms)]
        pairs = ((u, b) for c, buffers in zip(together, results, strict=True)
                 for u, b in zip(c.updates, buffers, strict=True))  # fmt: skip
        return out + [rounded(u, b) for u, b in pairs if not b.same_as(u.buffer)]


def guarded(inside: Any | None, term: Any, start: Any) -> Any:
    """The term, or the initial value where parts are longer than what is left."""
    if inside is None:
        return term
    return tirx.if_then_else(inside, as_dtype(term, dtype_of(start)), start)


def accumulated(update: Update, dtype: str) -> Any:
    """The buffer of an update if it has a type, else another one of its shape."""
    if dtype_of(update.buffer) == dtype:
        return update.buffer
    shape = items(update.buffer.ty.shape)
    return tirx.decl_buffer(shape, dtype, name=f"{update.buffer.name}_{dtype}")


def updating(
    axes: Sequence[Axis], together: Sequence[Combination], buffers: Sequence[Sequence[Any]],
    place: Sequence[Any], terms: Sequence[Sequence[Any]],
) -> Any:  # fmt: skip
    """The loop nest of a block that combines terms with the elements of buffers at a place."""
    body: list[Any] = []
    init: list[Any] = []
    for combine, own, new in zip(together, buffers, terms, strict=True):
        updated = combine([tirx.BufferLoad(b, place) for b in own], new)
        names = [tirx.Var(f"v_{b.name}", dtype_of(b)) for b in own]
        if len(own) > 1:
            body += [tirx.Bind(v, e) for v, e in zip(names, updated, strict=True)]
            updated = names
        body += [tirx.BufferStore(b, e, place) for b, e in zip(own, updated, strict=True)]
        init += [tirx.BufferStore(b, s, place) for b, s in zip(own, combine.starts, strict=True)]
    return nest(buffers[0][0].name, axes, seq(body), seq(init))


def rounded(update: Update, result: Any) -> Any:
    """The loop nest that copies an accumulator to a buffer of another type."""
    shape = items(update.buffer.ty.shape)
    axes = [Axis(tirx.Var(f"i{k}", dtype_of(e)), e) for k, e in enumerate(shape)]
    place = [a.var for a in axes]
    value = tirx.Cast(dtype_of(update.buffer), tirx.BufferLoad(result, place))
    return nest(update.buffer.name, axes, tirx.BufferStore(update.buffer, value, place), None)


def region(buffer: Any, indices: Sequence[Any]) -> Any:
    """The region of one element."""
    ranges = [tvm.ir.Range.from_min_extent(i, integer(1, i)) for i in items(indices)]
    return tirx.BufferRegion(buffer, ranges)


def nest(name: str, axes: Sequence[Axis], body: Any, init: Any) -> Any:
    """The loop nest around a block, in TIR's standard form."""
    loops = [tirx.Var(a.var.name, dtype_of(a.var)) for a in axes]
    kinds = {False: tirx.IterVar.DataPar, True: tirx.IterVar.CommReduce}
    iters = [tirx.IterVar(tvm.ir.Range(integer(0, a.var), a.extent), a.var, kinds[a.reduced])
             for a in axes]  # fmt: skip
    stored: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.BufferStore, stored.append))
    writes = [region(s.buffer, s.indices) for s in stored]
    reads = [region(e.source, e.indices) for e in loads(body)
             if not any(e.source.same_as(s.buffer) for s in stored)]  # fmt: skip
    block = tvm.s_tir.SBlock(iters, reads, writes, name, body, init)
    out = tvm.s_tir.SBlockRealize(loops, tirx.IntImm("bool", True), block)
    for var, axis in reversed(list(zip(loops, axes, strict=True))):
        out = tirx.For(var, integer(0, var), axis.extent, tirx.ForKind.SERIAL, out)
    return out
