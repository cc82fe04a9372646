"""Elementwise kernels: axes are fused where possible, with vectors along the contiguous one.

out[i, j] = f(x[i, j], b[j])
"""

from __future__ import annotations

from typing import Any

from ....analysis import Refusal
from ..loops.axes import extent
from ..loops.deinterleave import Deinterleaved, strided_copy
from ..loops.loop_nest import LoopNest
from ..loops.machine import VectorUnits
from ..loops.tile import Tile, columns
from ..nest.collapse import Views, collapsed
from ..nest.kernel import Kernel
from ..nest.program import Axis
from ..nest.segments import filled, segments
from ..nest.tir import dtype_of, seq
from . import rule

#: Vectors in one step of the loop.
UNROLL = 4
#: Rows of at most so many elements, and symbolic ones, are padded by filling all of them first.
#: This writes elements twice, but needs no loops for borders, which take longer than a short row.
NARROW = 64


@rule("pointwise", precedence=10)
def pointwise(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    if kernel.reduced:
        return Refusal("the kernel is a reduction")
    axis = max(kernel.axes, key=lambda axis: _value(kernel, axis), default=None)
    if axis is None:
        return LoopNest(kernel, machine, Tile(1, 1, 1), kernel.axes, None, None)()
    place = kernel.axes.index(axis)
    if extent(kernel, axis) <= NARROW and (parts := filled(kernel)):
        fill, inside = collapsed(parts[0], Views(())), parts[1]
        return seq([pointwise(fill, machine), _nest(inside, inside, machine, inside.axes[place])])
    return seq([_nest(part, kernel, machine, part.axes[place]) for part in segments(kernel, axis)])


def _nest(kernel: Kernel, unsplit: Kernel, machine: VectorUnits, axis: Axis) -> Any:
    lanes = min(machine.lanes(dtype_of(r.value)) for r in kernel.results)
    vectors = UNROLL
    if axis.static is not None:
        cover = columns(axis.static, lanes)
        lanes, vectors = cover[0][1], min(UNROLL, len(cover))
    elif not kernel.late and kernel.axes != unsplit.axes:
        lanes = vectors = 1  # a border, usually of a few elements
    order, tile = [*(a for a in kernel.axes if a is not axis), axis], Tile(1, vectors, lanes)
    if copy := strided_copy(kernel, axis):
        return Deinterleaved(kernel, machine, tile, order, None, axis, copy=copy)()
    return LoopNest(kernel, machine, tile, order, None, axis)()


def _value(kernel: Kernel, axis: Axis) -> tuple[int, int, int]:
    stores = sum(x.step(axis.var) == 1 for x in kernel.writes)
    loads = sum(x.step(axis.var) in (0, 1) for x in kernel.late)
    return 2 * stores + loads, kernel.axes.index(axis), extent(kernel, axis)
