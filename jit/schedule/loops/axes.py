"""Choose the vector axis, the row axis, and the order of loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..nest.kernel import Kernel
from ..nest.program import Axis
from ..nest.strided_access import StridedAccess
from .tile import Tile

#: Assumed value of a symbolic extent when extents are compared.
TYPICAL = 64
#: Minimum number of rows of a tile.
ENOUGH = 4


def extent(kernel: Kernel, axis: Axis) -> int:
    """Return the known or assumed extent of an axis."""
    return kernel.bounds(axis).within(TYPICAL)


def vector_axis(kernel: Kernel) -> Axis | None:
    """Return the best spatial axis along which all reads of a reduction have stride 0 or 1."""

    def fits(axis: Axis) -> bool:
        steps = [x.step(axis.var) for x in kernel.reads]
        return all(s in (0, 1) for s in steps) and 1 in steps

    found = [a for a in kernel.axes if fits(a)]
    return max(found, key=lambda axis: _value(kernel, axis), default=None)


def _value(kernel: Kernel, axis: Axis) -> tuple[int, int, int]:
    stores = sum(x.step(axis.var) == 1 for x in kernel.writes)
    late = sum(x.step(axis.var) in (0, 1) for x in kernel.late)
    return stores, min(extent(kernel, axis), TYPICAL), late


def row_axis(kernel: Kernel, axis: Axis) -> Axis | None:
    """Return the axis whose points share the vectors of ``axis``, or else any other axis.

    A static extent is preferred, because the rows of a symbolic one may be computed twice.
    """

    def value(a: Axis) -> tuple[int, bool, int, int]:
        shared = sum(x.step(axis.var) == 1 and x.step(a.var) == 0 for x in kernel.reads)
        scalars = sum(x.step(axis.var) == 0 and x.step(a.var) == 0 for x in kernel.reads)
        return shared, (a.static or 0) >= ENOUGH, min(extent(kernel, a), TYPICAL), scalars

    others = [a for a in kernel.axes if a is not axis]
    return max(others, key=value, default=None)


def reuses(kernel: Kernel, i: Axis, j: Axis) -> bool:
    """Return whether rows share a vector."""
    return any(x.step(j.var) == 1 and x.step(i.var) == 0 for x in kernel.reads)


def order(kernel: Kernel, i: Axis | None, j: Axis, tile: Tile) -> list[Axis]:
    """Order the loops so that the larger operand is read only once."""
    along = [x for x in kernel.reads if x.step(j.var) != 0]
    across = [x for x in kernel.reads if x.step(j.var) == 0]
    if i is None or not along or not across:
        return [a for a in kernel.axes if a is not i and a is not j] + [
            axis for axis in (i, j) if axis is not None
        ]
    first = [a for a in kernel.axes if _uses(along, a)]
    second = [a for a in kernel.axes if _uses(across, a)]
    ahead = [a for a in kernel.axes if (a in first) == (a in second)]
    left = [a for a in first if a not in ahead]
    right = [a for a in second if a not in ahead]
    one, two = _size(kernel, along), _size(kernel, across)
    tiles = {i.var.__chandle__(): tile.rows, j.var.__chandle__(): tile.vectors * tile.lanes}

    def count(axes: Sequence[Axis]) -> int:
        return prod(-(-extent(kernel, a) // tiles.get(a.var.__chandle__(), 1)) for a in axes)

    if one + count(left) * two <= two + count(right) * one:
        return [*ahead, *left, *right]
    return [*ahead, *right, *left]


def _uses(accesses: Sequence[StridedAccess], axis: Axis) -> bool:
    return any(x.step(axis.var) != 0 for x in accesses)


def _size(kernel: Kernel, accesses: Sequence[StridedAccess]) -> int:
    """Estimate the number of elements that accesses read."""
    every = [(a, extent(kernel, a)) for a in kernel.all_axes]
    return max(prod(n for a, n in every if x.step(a.var) != 0) for x in accesses)


def depth(kernel: Kernel) -> int:
    return prod(extent(kernel, a) for a in kernel.reduced)
