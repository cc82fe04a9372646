"""Contractions: keep rows and vectors of the result in registers during the reduction.

    out[i, j] = f(sum over k of x[i, k] * w[k, j])        matmul, dense, batched, convolutions
    out[j] = max over k of x[k, j]                        reductions over outer axes, pools

The order of the terms of a sum is kept.
"""

from __future__ import annotations

from typing import Any

from ....analysis import Refusal
from ..loops.axes import depth, extent, order, reuses, row_axis, vector_axis
from ..loops.loop_nest import LoopNest
from ..loops.machine import VectorUnits, bits
from ..loops.pack import Packed, worthwhile
from ..loops.tile import Tile, best, columns, divisors
from ..nest.kernel import Kernel
from ..nest.program import Axis
from ..nest.symbolic_sizes import Bounds
from . import rule

#: Rows and vectors of a tile if the number of rows is unknown.
ROWS, VECTORS = 6, 4


@rule("contraction", precedence=20)
def contraction(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    if not kernel.reduced:
        return Refusal("the kernel is not a reduction")
    j = vector_axis(kernel)
    if j is None:
        return Refusal("no axis of the result is contiguous in every operand")
    i = row_axis(kernel, j)
    tile = _tile(kernel, machine, i, j)
    for t in (tile, _narrow(tile, machine)):
        loops = order(kernel, i, j, t)
        strip = worthwhile(kernel, machine, t, loops, i, j)
        if strip is not None:
            return Packed.of(kernel, machine, t, loops, i, j, strip)()
    return LoopNest(kernel, machine, tile, order(kernel, i, j, tile), i, j)()


def _narrow(tile: Tile, machine: VectorUnits) -> Tile:
    """Return a tile of two vectors that fills the registers: its strip is small."""
    rows = min((machine.registers - 3) // 2, max(1, tile.rows * tile.vectors // 2))
    return tile if tile.vectors <= 2 else Tile(rows, 2, tile.lanes)


def _tile(kernel: Kernel, machine: VectorUnits, i: Axis | None, j: Axis) -> Tile:
    width = max(bits(a.dtype) for a in kernel.accumulators)
    lanes = max(1, machine.vector_bits // width)
    each = len(kernel.accumulators)
    share = VectorUnits(machine.vector_bits, machine.registers // each, machine.cores)
    rows = 1 if i is None else extent(kernel, i)
    if j.static is not None:
        found = columns(j.static, lanes)
        lanes, vectors = found[0][1], len(found)
    else:
        known = kernel.bounds(j)
        lanes = columns(known.within(lanes), lanes)[0][1]
        vectors = min(2, -(-known.within(2 * lanes) // lanes))
    if i is not None and not reuses(kernel, i, j):
        return best(min(rows, 4), min(vectors, 4), depth(kernel), lanes, share)
    if i is not None and i.static is None:
        wide = min(VECTORS, vectors)
        some = max(1, min(ROWS * VECTORS // wide, 12) // each)
        return _ranged(kernel.bounds(i), vectors, depth(kernel), lanes, share, some) \
            or Tile(some, wide, lanes)  # fmt: skip
    return best(rows, vectors, depth(kernel), lanes, share)


def _ranged(
    rows: Bounds, vectors: int, depth: int, lanes: int, share: VectorUnits, some: int
) -> Tile | None:
    """Return a tile whose rows divide every possible extent, or that covers the largest one.

    Returns None if neither is efficient.
    """
    if sizes := divisors(rows.multiple):
        return best(rows.multiple, vectors, depth, lanes, share, sizes)
    if rows.high is not None and rows.high <= some:
        return best(rows.high, vectors, depth, lanes, share)
    return None
