"""Elementwise kernels: axes are fused where possible, with vectors along the contiguous one.

out[i, j] = f(x[i, j], b[j])
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from ....analysis import Refusal
from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import Values, dtype_of, loop, seq
from ...codegen.vector_units import VectorUnits
from ..loops.axes import extent
from ..loops.blocked import MOST, size_of
from ..loops.deinterleave import Deinterleaved, strided_copy
from ..loops.loop_nest import LoopNest
from ..loops.tile import Tile, columns
from ..nest.collapse import Views, collapsed
from ..nest.kernel import Kernel
from ..nest.segments import filled, segments
from . import POINTWISE, rule

#: Vectors in one step of the loop.
UNROLL = 4
#: Rows of at most so many elements, and symbolic ones, are padded by filling all of them first.
#: This writes elements twice, but needs no loops for borders, which take longer than a short row.
NARROW = 64


@rule(POINTWISE, precedence=10)
def pointwise(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    """Return a loop nest without reduction, in segments where conditions divide an axis."""
    if kernel.reduced:
        return Refusal("the kernel is a reduction")
    axis = max(kernel.axes, key=lambda axis: _value(kernel, axis), default=None)
    if axis is None:
        return LoopNest(kernel, machine, Tile(1, 1, 1), kernel.axes, None, None)()
    place = kernel.axes.index(axis)
    if extent(kernel, axis) <= NARROW and (parts := filled(kernel)):
        return _padded(kernel, *parts, machine, place)
    return seq([_nest(part, kernel, machine, part.axes[place]) for part in segments(kernel, axis)])


def _padded(kernel: Kernel, fill: Kernel, inside: Kernel, machine: VectorUnits, place: int) -> Any:
    """Emit a fill and the copy inside it, slice by slice if all slices exceed the first cache."""
    pairs = zip(kernel.axes[:place], inside.axes, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] is pair[1], pairs)))
    if machine.cores > 1 or size_of(kernel, kernel.results[0].buffer) <= MOST:
        shared = 0
    at = Values()

    def slices(depth: int) -> Any:
        if depth == shared:
            rest = (k.at(at, k.axes[shared:], ()) for k in (fill, inside))
            filling, copying = rest
            axis = copying.axes[place - shared]
            return seq([pointwise(collapsed(filling, Views(())), machine),
                        _nest(copying, copying, machine, axis)])  # fmt: skip

        def body(var: Any) -> Any:
            at[kernel.axes[depth].var] = var
            return slices(depth + 1)

        axis = kernel.axes[depth]
        return loop(axis.var.name, axis.extent, axis.var, body)

    return slices(0)


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
