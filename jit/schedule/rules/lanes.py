"""Reductions over a contiguous axis: each lane of a vector accumulates a part.

    out[i] = sum over k of x[i, k]                       sums, means, extremes, norms
    out[i, j] = sum over k of x[i, k] * w[j, k]          products with a transposed operand

It applies to sums, products, minima and maxima, whose terms may be reassociated.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from ....analysis import Refusal
from ..loops.axes import extent
from ..loops.lane_reduction import Lanes, term
from ..loops.machine import VectorUnits
from ..loops.tile import Tile, columns
from ..nest.kernel import Kernel
from ..nest.program import Axis
from ..nest.vector_functions import vectorizable
from . import rule

#: Rows and columns whose partial results are in registers together.
ROWS, COLUMNS = 4, 4


@rule("lanes", precedence=30)
def lanes(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    if not kernel.reduced:
        return Refusal("the kernel is not a reduction")
    if any(term(a) is None for a in kernel.accumulators):
        return Refusal("the reduction may not be associative")
    k = _contiguous(kernel)
    if k is None:
        return Refusal("no reduced axis is contiguous in every operand")
    every = [a.update for a in kernel.accumulators] + [e for _, e in kernel.before]
    if not all(vectorizable(e, k.var) for e in every):
        return Refusal("the reduced expression cannot be vectorised")
    wide = min(machine.lanes(a.dtype) for a in kernel.accumulators)
    most = kernel.bounds(k).high
    if most is not None:
        wide = columns(min(most, wide), wide)[0][1]
    i, j = _pair(kernel)
    tile = Tile(
        1 if i is None else min(ROWS, extent(kernel, i)),
        1 if j is None else min(COLUMNS, extent(kernel, j)),
        1,
    )
    others = [a for a in kernel.axes if a is not i and a is not j]
    order = [*others, *(a for a in (j, i) if a is not None)]
    return Lanes(kernel, machine, tile, order, i, j, k=k, wide=wide)()


def _contiguous(kernel: Kernel) -> Axis | None:
    def fits(axis: Axis) -> bool:
        steps = [x.step(axis.var) for x in kernel.reads]
        most = kernel.bounds(axis).high
        long = most is None or most >= 4
        return long and all(s in (0, 1) for s in steps) and 1 in steps

    return max(filter(fits, kernel.reduced), key=lambda axis: extent(kernel, axis), default=None)


def _pair(kernel: Kernel) -> tuple[Axis | None, Axis | None]:
    """Return two axes such that each of them shares an operand."""

    def fits(i: Axis, j: Axis) -> bool:
        steps = [(x.step(i.var), x.step(j.var)) for x in kernel.reads]
        mine = any(a != 0 and b == 0 for a, b in steps)
        return mine and any(a == 0 and b != 0 for a, b in steps)

    found = [p for p in permutations(kernel.axes, 2) if fits(*p)]
    return max(found, key=lambda p: min(extent(kernel, a) for a in p), default=(None, None))
