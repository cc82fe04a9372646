"""Vectorise a reduction: each lane accumulates a part of it.

    out[i] = sum over k of x[i, k]

    for kt: for l in vectorized(16): acc[l] += x[i, kt * 16 + l]
    sum the lanes of acc by halving, then add the remaining elements

This reassociates the terms, so it applies to sums, products, minima and maxima only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import Values, integer, local, loop, mentions, seq, values
from ....analysis.lifting.tir.node import as_dtype
from ..nest.kernel import Accumulator, Kernel
from ..nest.symbolic_sizes import SizeBounds
from .loop_nest import LoopNest
from .runs import AxisRun, Rows
from .tile import columns

#: Independent vectors of a reduction to a single element, to hide the latency of additions.
CHAINS = 4


@dataclass(frozen=True)
class LaneUpdate:
    """An update ``op(acc, value)``; ``neutral`` is the neutral element of ``op``."""

    op: Any
    value: Any
    neutral: Any


_NEUTRAL = {tirx.Add: 0, tirx.Mul: 1, tirx.Max: None, tirx.Min: None}


def term(accumulator: Accumulator) -> LaneUpdate | None:
    """Return the update of an accumulator if it is associative, else None."""
    expr = accumulator.update
    if type(expr) not in _NEUTRAL:
        return None
    for acc, value in ((expr.a, expr.b), (expr.b, expr.a)):
        if acc.same_as(accumulator.var) and accumulator.var not in mentions(value):
            start = _NEUTRAL[type(expr)]
            # A minimum or maximum may include its initial value several times.
            neutral = accumulator.init if start is None else tirx.const(start, accumulator.dtype)
            return LaneUpdate(type(expr), value, neutral)
    return None


@dataclass
class Lanes(LoopNest):
    """A loop nest over rows and columns, in vectors of ``lanes`` along the reduced ``axis``."""

    axis: Axis | None = None
    lanes: int = 1

    def micro(self, rows: Rows, cols: Sequence[AxisRun]) -> Any:
        assert self.axis is not None
        runs = cols or [AxisRun(lambda c: None)]
        return seq([_LaneTile(self, self._based(), rows, run, self.axis)() for run in runs])


class _LaneTile:
    """One tile: partial results in lanes, their combination, the remainder, the stores."""

    def __init__(self, nest: Lanes, kernel: Kernel, rows: Rows, run: AxisRun, axis: Axis) -> None:
        self.nest, self.kernel, self.rows, self.run, self.axis = nest, kernel, rows, run, axis
        self.count = rows.count if rows else 1
        self.elements = self.count * run.count
        self.bounds = kernel.bounds(axis)
        self.lanes, self.chains = nest.lanes, _chains(self.bounds, nest.lanes, self.elements)
        self.width = self.lanes * self.chains  # of one row and column
        self.terms = [update for a in kernel.accumulators if (update := term(a))]
        dtypes = [a.dtype for a in kernel.accumulators]
        self.parts = [local("part", [self.elements * self.width], d) for d in dtypes]
        self.totals = [local("acc", [self.elements], d) for d in dtypes]

    def __call__(self) -> Any:
        steps = [tirx.AllocBuffer(b) for b in (*self.parts, *self.totals)]
        steps.append(self.vector(self.elements * self.width, lambda lane: seq([
            tirx.BufferStore(part, update.neutral, [lane])
            for part, update in zip(self.parts, self.terms, strict=True)])))  # fmt: skip
        steps.append(self.each(lambda at, element: seq(self.nest.start(
            self.kernel, [(total, element) for total in self.totals], at))))  # fmt: skip
        others = tuple(a for a in self.kernel.reduced if a is not self.axis)
        steps.append(self.nest.reduce(
            replace(self.kernel, reduced=others), lambda at: seq(self.accumulate(at))))  # fmt: skip
        steps.append(self.each(lambda at, element: seq(self.combine(element))))
        steps.append(self.each(lambda at, element: seq(self.nest.store(
            self.kernel, [(total, element) for total in self.totals], at))))  # fmt: skip
        return seq(steps)

    def each(self, body: Callable[[Values, Any], Any]) -> Any:
        """Emit loops over rows and columns; ``body`` gets the axes and the index of an element."""
        like, unroll = self.axis.var, tirx.ForKind.UNROLLED

        def emit(row: Any, column: Any) -> Any:
            at = self.nest.place(self.rows, self.run, row, column, integer(0, column))
            return body(at, row * integer(self.run.count, row) + column)

        return loop("r", self.count, like, lambda row: loop(
            "c", self.run.count, like, lambda column: emit(row, column),
            unroll), unroll)  # fmt: skip

    def vector(self, lanes: int, body: Callable[[Any], Any]) -> Any:
        return loop("l", lanes, self.axis.var, body, tirx.ForKind.VECTORIZED)

    # ------------------------------------------------------------------------ along the reduction

    def accumulate(self, kernel: Kernel) -> list[Any]:
        """Emit the whole axis: steps of several vectors, single vectors, and the remainder."""
        if self.axis.static is None:
            end = as_dtype(self.axis.extent, str(self.axis.var.ty.dtype))
            step = integer(self.width, self.axis.var)
            full = tirx.FloorDiv(end, step)
            base = full * step
            count = tirx.FloorDiv(end - base, integer(self.lanes, self.axis.var))
            tail = base + count * integer(self.lanes, self.axis.var)
            vectors = self.bounds.multiple % self.width != 0 and self.chains > 1
            single = self.bounds.multiple % self.lanes != 0
            return [
                self.steps(kernel, integer(0, self.axis.var), full, self.chains),
                *([self.steps(kernel, base, count, 1)] if vectors else []),
                *([loop("k", end - tail, self.axis.var,
                        lambda offset: self.accumulate_element(kernel, tail + offset))]
                  if single else []),
            ]  # fmt: skip
        full, remainder = divmod(self.axis.static, self.width)
        out = [self.steps(kernel, integer(0, self.axis.var), full, self.chains)] if full else []
        for start, lanes in columns(remainder, self.lanes, twice=False) if remainder else ():
            first = integer(full * self.width + start, self.axis.var)
            out.append(self.accumulate_vector(kernel, first, 0, lanes))
        return out

    def steps(self, kernel: Kernel, base: Any, count: Any, chains: int) -> Any:
        size = integer(chains * self.lanes, self.axis.var)
        return loop("kt", count, self.axis.var, lambda step: loop(
            "u", chains, step, lambda chain: self.accumulate_vector(
                kernel, base + step * size + chain * integer(self.lanes, chain), chain, self.lanes),
            tirx.ForKind.UNROLLED))  # fmt: skip

    def accumulate_vector(self, kernel: Kernel, first: Any, chain: Any, lanes: int) -> Any:
        """Accumulate one vector for each row and column into the lanes of a chain."""

        def update_lane(at: Values, element: Any, lane: Any) -> Any:
            vector = element * integer(self.chains, element) + chain
            place = vector * integer(self.lanes, element) + lane
            at = values(*at.items(), (self.axis.var, first + lane))
            return seq(self.nest.update(kernel, [(part, place) for part in self.parts], at))

        return self.each(lambda at, element: self.vector(
            lanes, lambda lane: update_lane(at, element, lane)))  # fmt: skip

    def accumulate_element(self, kernel: Kernel, place: Any) -> Any:
        return self.each(lambda at, element: seq(self.nest.update(
            kernel, [(total, element) for total in self.totals],
            values(*at.items(), (self.axis.var, place)))))  # fmt: skip

    def combine(self, element: Any) -> list[Any]:
        """Combine the lanes of a row and column by halving."""
        base = element * integer(self.width, element)
        out = []
        for part, update, total in zip(self.parts, self.terms, self.totals, strict=True):
            half = self.width // 2
            while half:
                out.append(self.vector(half, partial(_fold, part, update, base, half)))
                half //= 2
            result = update.op(tirx.BufferLoad(total, [element]), tirx.BufferLoad(part, [base]))
            out.append(tirx.BufferStore(total, result, [element]))
        return out


def _fold(part: Any, update: LaneUpdate, base: Any, half: int, lane: Any) -> Any:
    place = base + lane
    upper = tirx.BufferLoad(part, [place + integer(half, place)])
    return tirx.BufferStore(part, update.op(tirx.BufferLoad(part, [place]), upper), [place])


def _chains(bounds: SizeBounds, lanes: int, elements: int) -> int:
    """Return the vectors in one step, so that enough independent sums are in flight."""
    chains = 1
    most = CHAINS * lanes if bounds.high is None else bounds.high
    while elements * chains < CHAINS and 2 * chains * lanes <= most:
        chains *= 2
    return chains
