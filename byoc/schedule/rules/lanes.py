"""Reductions over a contiguous axis: each lane of a vector accumulates a part.

    out[i] = sum over k of x[i, k]                       sums, means, extremes, norms
    out[i, j] = sum over k of x[i, k] * w[j, k]          products with a transposed operand

It applies to sums, products, minima and maxima, whose terms may be reassociated.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from ....analysis import Refusal
from ....analysis.blocks.loop_steps import Axis
from ...codegen.vector_units import VectorUnits
from ..loops.axes import extent
from ..loops.lane_reduction import Lanes, term
from ..loops.tile import Tile, columns
from ..nest.kernel import Kernel
from ..nest.vector_functions import vectorizable
from . import rule

#: Rows and columns whose partial results are in registers together.
ROWS, COLUMNS = 4, 4


@rule("lanes", precedence=30)
def lanes(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    """Return a reduction whose lanes are partial results; it must be associative."""
    if not kernel.reduced:
        return Refusal("the kernel is not a reduction")
    if any(term(a) is None for a in kernel.accumulators):
        return Refusal("the reduction may not be associative")
    axis = _contiguous_axis(kernel)
    if axis is None:
        return Refusal("no reduced axis is contiguous in every operand")
    exprs = [a.update for a in kernel.accumulators] + [e for _, e in kernel.before]
    if not all(vectorizable(e, axis.var) for e in exprs):
        return Refusal("the reduced expression cannot be vectorised")
    width = min(machine.lanes(a.dtype) for a in kernel.accumulators)
    most = kernel.bounds(axis).high
    if most is not None:
        width = columns(min(most, width), width)[0][1]
    row_axis, column_axis = _axis_pair(kernel)
    tile = Tile(
        1 if row_axis is None else min(ROWS, extent(kernel, row_axis)),
        1 if column_axis is None else min(COLUMNS, extent(kernel, column_axis)),
        1,
    )
    others = [a for a in kernel.axes if a is not row_axis and a is not column_axis]
    order = [*others, *(a for a in (column_axis, row_axis) if a is not None)]
    return Lanes(kernel, machine, tile, order, row_axis, column_axis, axis=axis, lanes=width)()


def _contiguous_axis(kernel: Kernel) -> Axis | None:
    def contiguous(axis: Axis) -> bool:
        steps = [x.step(axis.var) for x in kernel.reads]
        most = kernel.bounds(axis).high
        long = most is None or most >= 4
        return long and all(s in (0, 1) for s in steps) and 1 in steps

    return max(
        filter(contiguous, kernel.reduced), key=lambda axis: extent(kernel, axis), default=None
    )


def _axis_pair(kernel: Kernel) -> tuple[Axis | None, Axis | None]:
    """Return two axes such that each of them shares an operand."""

    def share(row: Axis, column: Axis) -> bool:
        steps = [(x.step(row.var), x.step(column.var)) for x in kernel.reads]
        row_only = any(a != 0 and b == 0 for a, b in steps)
        return row_only and any(a == 0 and b != 0 for a, b in steps)

    pairs = [p for p in permutations(kernel.axes, 2) if share(*p)]
    return max(pairs, key=lambda p: min(extent(kernel, a) for a in p), default=(None, None))
