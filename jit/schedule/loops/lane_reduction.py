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

from ....analysis.lifting.tir.node import as_dtype
from ..nest.kernel import Accumulator, Kernel
from ..nest.program import Axis
from ..nest.symbolic_sizes import Bounds
from ..nest.tir import Values, integer, local, loop, mentions, seq, values
from .loop_nest import LoopNest, Rows, Run
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
    """A loop nest over rows and columns, with vectors of ``wide`` lanes along reduction ``k``."""

    k: Axis | None = None
    wide: int = 1

    def micro(self, rows: Rows, cols: Sequence[Run]) -> Any:
        assert self.k is not None
        runs = cols or [Run(lambda c: None)]
        return seq([_Block(self, self._based(), rows, run, self.k)() for run in runs])


class _Block:
    """One tile: partial results in lanes, their combination, the remainder, the stores."""

    def __init__(self, nest: Lanes, kernel: Kernel, rows: Rows, run: Run, axis: Axis) -> None:
        self.nest, self.kernel, self.rows, self.run, self.k = nest, kernel, rows, run, axis
        self.count = rows.count if rows else 1
        self.spots = self.count * run.count
        self.bounds = kernel.bounds(axis)
        self.lanes, self.chains = nest.wide, _chains(self.bounds, nest.wide, self.spots)
        self.width = self.lanes * self.chains  # of one row and column
        self.terms = [update for a in kernel.accumulators if (update := term(a))]
        kinds = [a.dtype for a in kernel.accumulators]
        self.parts = [local("part", [self.spots * self.width], d) for d in kinds]
        self.whole = [local("acc", [self.spots], d) for d in kinds]

    def __call__(self) -> Any:
        steps = [tirx.AllocBuffer(b) for b in (*self.parts, *self.whole)]
        steps.append(self.vector(self.spots * self.width, lambda x: seq([
            tirx.BufferStore(b, update.neutral, [x])
            for b, update in zip(self.parts, self.terms, strict=True)])))  # fmt: skip
        steps.append(self.each(lambda at, s: seq(
            self.nest.start(self.kernel, [(b, s) for b in self.whole], at))))  # fmt: skip
        others = tuple(a for a in self.kernel.reduced if a is not self.k)
        steps.append(self.nest.reduce(
            replace(self.kernel, reduced=others), lambda at: seq(self.along(at))))  # fmt: skip
        steps.append(self.each(lambda at, s: seq(self.together(s))))
        steps.append(self.each(lambda at, s: seq(
            self.nest.store(self.kernel, [(b, s) for b in self.whole], at))))  # fmt: skip
        return seq(steps)

    def each(self, body: Callable[[Values, Any], Any]) -> Any:
        """Emit loops over rows and columns; ``body`` gets the axes and the index of a spot."""
        like, unroll = self.k.var, tirx.ForKind.UNROLLED

        def spot(r: Any, c: Any) -> Any:
            at = self.nest.place(self.rows, self.run, r, c, integer(0, c))
            return body(at, r * integer(self.run.count, r) + c)

        return loop("r", self.count, like, lambda r: loop(
            "c", self.run.count, like, lambda c: spot(r, c), unroll), unroll)  # fmt: skip

    def vector(self, lanes: int, body: Callable[[Any], Any]) -> Any:
        return loop("l", lanes, self.k.var, body, tirx.ForKind.VECTORIZED)

    # ------------------------------------------------------------------------ along the reduction

    def along(self, kernel: Kernel) -> list[Any]:
        """Emit the whole axis: steps of several vectors, single vectors, and the remainder."""
        if self.k.static is None:
            end = as_dtype(self.k.extent, str(self.k.var.ty.dtype))
            step = integer(self.width, self.k.var)
            whole = tirx.FloorDiv(end, step)
            base = whole * step
            count = tirx.FloorDiv(end - base, integer(self.lanes, self.k.var))
            rest = base + count * integer(self.lanes, self.k.var)
            vectors = self.bounds.multiple % self.width != 0 and self.chains > 1
            single = self.bounds.multiple % self.lanes != 0
            return [
                self.steps(kernel, integer(0, self.k.var), whole, self.chains),
                *([self.steps(kernel, base, count, 1)] if vectors else []),
                *([loop("k", end - rest, self.k.var, lambda v: self.single(kernel, rest + v))]
                  if single else []),
            ]  # fmt: skip
        whole, left = divmod(self.k.static, self.width)
        out = [self.steps(kernel, integer(0, self.k.var), whole, self.chains)] if whole else []
        for start, lanes in columns(left, self.lanes, twice=False) if left else ():
            first = integer(whole * self.width + start, self.k.var)
            out.append(self.piece(kernel, first, 0, lanes))
        return out

    def steps(self, kernel: Kernel, base: Any, count: Any, chains: int) -> Any:
        size = integer(chains * self.lanes, self.k.var)
        return loop("kt", count, self.k.var, lambda v: loop(
            "u", chains, v, lambda u: self.piece(
                kernel, base + v * size + u * integer(self.lanes, u), u, self.lanes),
            tirx.ForKind.UNROLLED))  # fmt: skip

    def piece(self, kernel: Kernel, first: Any, chain: Any, lanes: int) -> Any:
        """Accumulate one vector for each row and column into the lanes of a chain."""

        def one(at: Values, s: Any, x: Any) -> Any:
            place = (s * integer(self.chains, s) + chain) * integer(self.lanes, s) + x
            at = values(*at.items(), (self.k.var, first + x))
            return seq(self.nest.update(kernel, [(b, place) for b in self.parts], at))

        return self.each(lambda at, s: self.vector(lanes, lambda x: one(at, s, x)))

    def single(self, kernel: Kernel, place: Any) -> Any:
        return self.each(lambda at, s: seq(self.nest.update(
            kernel, [(b, s) for b in self.whole],
            values(*at.items(), (self.k.var, place)))))  # fmt: skip

    def together(self, s: Any) -> list[Any]:
        """Combine the lanes of a row and column by halving."""
        base = s * integer(self.width, s)
        out = []
        for b, update, to in zip(self.parts, self.terms, self.whole, strict=True):
            half = self.width // 2
            while half:
                out.append(self.vector(half, partial(_fold, b, update, base, half)))
                half //= 2
            both = update.op(tirx.BufferLoad(to, [s]), tirx.BufferLoad(b, [base]))
            out.append(tirx.BufferStore(to, both, [s]))
        return out


def _fold(b: Any, update: LaneUpdate, base: Any, half: int, lane: Any) -> Any:
    place = base + lane
    other = tirx.BufferLoad(b, [place + integer(half, place)])
    return tirx.BufferStore(b, update.op(tirx.BufferLoad(b, [place]), other), [place])


def _chains(bounds: Bounds, lanes: int, spots: int) -> int:
    """Return the vectors in one step, so that enough independent sums are in flight."""
    chains = 1
    most = CHAINS * lanes if bounds.high is None else bounds.high
    while spots * chains < CHAINS and 2 * chains * lanes <= most:
        chains *= 2
    return chains
