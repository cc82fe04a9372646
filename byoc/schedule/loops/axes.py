"""Choose the vector axis, the row axis, and the order of loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.strides import StridedAccess
from ....analysis.lifting.tir.node import items
from ...codegen.vector_units import bits
from ..nest.kernel import Kernel
from .tile import Tile

#: Assumed value of a symbolic extent when extents are compared.
TYPICAL = 64
#: Minimum number of rows of a tile.
ENOUGH = 4
#: Bytes that stay in the first-level cache, however often they are read.
CLOSE = 24 << 10


def extent(kernel: Kernel, axis: Axis) -> int:
    """Return the known or assumed extent of an axis."""
    return kernel.bounds(axis).within(TYPICAL)


def choose_vector_axis(kernel: Kernel) -> Axis | None:
    """Return the best spatial axis along which all reads of a reduction have stride 0 or 1."""

    def contiguous(axis: Axis) -> bool:
        steps = [x.step(axis.var) for x in kernel.reads]
        return all(s in (0, 1) for s in steps) and 1 in steps

    candidates = [a for a in kernel.axes if contiguous(a)]
    return max(candidates, key=lambda axis: _value(kernel, axis), default=None)


def _value(kernel: Kernel, axis: Axis) -> tuple[int, int, int]:
    stores = sum(x.step(axis.var) == 1 for x in kernel.writes)
    late = sum(x.step(axis.var) in (0, 1) for x in kernel.late)
    return stores, min(extent(kernel, axis), TYPICAL), late


def choose_row_axis(kernel: Kernel, axis: Axis) -> Axis | None:
    """Return the axis whose points share the vectors of ``axis``, or else any other axis.

    A static extent is preferred, because the rows of a symbolic one may be computed twice. If no
    axis shares vectors, as in a depthwise convolution, one that shares scalars is: along it,
    windows overlap.
    """

    def shared(row: Axis) -> int:
        return sum(x.step(axis.var) == 1 and x.step(row.var) == 0 for x in kernel.reads)

    def value(row: Axis) -> tuple[int, int, bool, int, int]:
        scalars = sum(x.step(axis.var) == 0 and x.step(row.var) == 0 for x in kernel.reads)
        enough = (row.static or 0) >= ENOUGH, min(extent(kernel, row), TYPICAL)
        return (shared(row), 0, *enough, scalars) if sharing else (0, scalars, *enough, 0)

    others = [a for a in kernel.axes if a is not axis]
    sharing = any(shared(row) for row in others)
    return max(others, key=value, default=None)


def reuses(kernel: Kernel, row_axis: Axis, vector_axis: Axis) -> bool:
    """Return whether rows share a vector."""
    return any(x.step(vector_axis.var) == 1 and x.step(row_axis.var) == 0 for x in kernel.reads)


def order(kernel: Kernel, row_axis: Axis | None, vector_axis: Axis, tile: Tile) -> list[Axis]:
    """Order the loops so that what does not fit the first-level cache is read only once."""
    along = [x for x in kernel.reads if x.step(vector_axis.var) != 0]
    across = [x for x in kernel.reads if x.step(vector_axis.var) == 0]
    if row_axis is None or not along or not across:
        return [a for a in kernel.axes if a is not row_axis and a is not vector_axis] + [
            axis for axis in (row_axis, vector_axis) if axis is not None
        ]
    along_axes = [a for a in kernel.axes if _uses(along, a)]
    across_axes = [a for a in kernel.axes if _uses(across, a)]
    outer = [a for a in kernel.axes if (a in along_axes) == (a in across_axes)]
    along_only = [a for a in along_axes if a not in outer]
    across_only = [a for a in across_axes if a not in outer]
    along_size, across_size = _size(kernel, along), _size(kernel, across)
    tiles = {row_axis.var.__chandle__(): tile.rows,
             vector_axis.var.__chandle__(): tile.vectors * tile.lanes}  # fmt: skip

    def count(axes: Sequence[Axis]) -> int:
        return prod(-(-extent(kernel, a) // tiles.get(a.var.__chandle__(), 1)) for a in axes)

    along_first = along_size + _again(across_size, count(along_only))
    across_first = across_size + _again(along_size, count(across_only))
    if along_first <= across_first:
        return [*outer, *along_only, *across_only]
    return [*outer, *across_only, *along_only]


def _uses(accesses: Sequence[StridedAccess], axis: Axis) -> bool:
    return any(x.step(axis.var) != 0 for x in accesses)


def _again(size: int, times: int) -> int:
    """Return the bytes that come from further caches if an operand is read several times."""
    return size if size <= CLOSE else times * size


def _size(kernel: Kernel, accesses: Sequence[StridedAccess]) -> int:
    """Estimate the bytes that accesses read; windows overlap."""
    extents = [(a, extent(kernel, a)) for a in kernel.all_axes]

    def read(access: StridedAccess) -> int:
        points = prod(n for a, n in extents if access.step(a.var) != 0)
        shape = items(access.buffer.ty.shape)
        elements = min(points, prod(kernel.sizes.of(n).within(TYPICAL) for n in shape))
        return elements * bits(str(access.buffer.ty.dtype)) // 8

    return max(map(read, accesses))


def depth(kernel: Kernel) -> int:
    """Return the number of points of the reduction."""
    return prod(extent(kernel, a) for a in kernel.reduced)
