"""Contractions: keep rows and vectors of the result in registers during the reduction.

    out[i, j] = f(sum over k of x[i, k] * w[k, j])        matmul, dense, batched, convolutions
    out[j] = max over k of x[k, j]                        reductions over outer axes, pools

The order of the terms of a sum is kept.
"""

from __future__ import annotations

from typing import Any

from ....analysis import Refusal
from ....analysis.blocks.loop_steps import Axis
from ...codegen.vector_units import VectorUnits, bits
from ..loops.axes import choose_row_axis, choose_vector_axis, depth, extent, order, reuses
from ..loops.loop_nest import LoopNest
from ..loops.pack import Packed, choose_strip
from ..loops.tile import Tile, best, columns, divisors
from ..nest.kernel import Kernel
from ..nest.symbolic_sizes import SizeBounds
from . import rule

#: Rows and, at most, vectors of a tile if the number of rows is unknown.
ROWS, VECTORS = 6, 4
#: Points of a reduction that are unrolled: windows of 5 by 5.
FEW = 25


@rule("contraction", precedence=20)
def contraction(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    """Return a tiled reduction, with vectors along an axis of the result."""
    if not kernel.reduced:
        return Refusal("the kernel is not a reduction")
    vector_axis = choose_vector_axis(kernel)
    if vector_axis is None:
        return Refusal("no axis of the result is contiguous in every operand")
    row_axis = choose_row_axis(kernel, vector_axis)
    tile = _tile(kernel, machine, row_axis, vector_axis)
    for candidate in (tile, _narrow(tile, machine)):
        loops = order(kernel, row_axis, vector_axis, candidate)
        strip = choose_strip(kernel, machine, candidate, loops, row_axis, vector_axis)
        if strip is not None:
            return Packed.of(kernel, machine, candidate, loops, row_axis, vector_axis, strip)()
    loops = order(kernel, row_axis, vector_axis, tile)
    return LoopNest(kernel, machine, tile, loops, row_axis, vector_axis,
                    unrolled=_overlapping(kernel, row_axis, vector_axis))()  # fmt: skip


def _overlapping(kernel: Kernel, row_axis: Axis | None, vector_axis: Axis) -> bool:
    """Return whether a reduction has few points, and rows share elements, if anything, there."""
    known = all(a.static is not None for a in kernel.reduced)
    alone = row_axis is None or not reuses(kernel, row_axis, vector_axis)
    return known and alone and depth(kernel) <= FEW


def _narrow(tile: Tile, machine: VectorUnits) -> Tile:
    """Return a tile of two vectors that fills the registers: its strip is small."""
    rows = min((machine.registers - 3) // 2, max(1, tile.rows * tile.vectors // 2))
    return tile if tile.vectors <= 2 else Tile(rows, 2, tile.lanes)


def _tile(kernel: Kernel, machine: VectorUnits, row_axis: Axis | None, vector_axis: Axis) -> Tile:
    width = max(bits(a.dtype) for a in kernel.accumulators)
    lanes = max(1, machine.vector_bits // width)
    each = len(kernel.accumulators)
    share = VectorUnits(machine.vector_bits, machine.registers // each, machine.cores)
    rows = 1 if row_axis is None else extent(kernel, row_axis)
    if vector_axis.static is not None:
        cover = columns(vector_axis.static, lanes)
        lanes, vectors = cover[0][1], len(cover)
    else:
        bounds = kernel.bounds(vector_axis)
        lanes = columns(bounds.within(lanes), lanes)[0][1]
        vectors = min(2, -(-bounds.within(2 * lanes) // lanes))
    if row_axis is not None and not reuses(kernel, row_axis, vector_axis):
        return best(min(rows, 4), min(vectors, 4), depth(kernel), lanes, share)
    if row_axis is not None and row_axis.static is None:
        # Beside the sums, registers hold a vector of each column and an element of a row.
        fitting = max(1, min(VECTORS, (machine.registers - 1) // (ROWS + 1)))
        capped = min(fitting, vectors)
        most = max(1, min(ROWS * fitting // capped, 12) // each)
        return _ranged(kernel.bounds(row_axis), vectors, depth(kernel), lanes, share, most) \
            or Tile(most, capped, lanes)  # fmt: skip
    return best(rows, vectors, depth(kernel), lanes, share)


def _ranged(
    rows: SizeBounds, vectors: int, depth: int, lanes: int, share: VectorUnits, most: int
) -> Tile | None:
    """Return a tile whose rows divide every possible extent, or that covers the largest one.

    Returns None if neither is efficient.
    """
    if sizes := divisors(rows.multiple):
        return best(rows.multiple, vectors, depth, lanes, share, sizes)
    if rows.high is not None and rows.high <= most:
        return best(rows.high, vectors, depth, lanes, share)
    return None
