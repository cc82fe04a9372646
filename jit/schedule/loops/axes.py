"""Which axis vectors are along, which one the rows of a tile are of, and the order of loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..nest.kernel import Kernel
from ..nest.program import Axis
from ..nest.strided_access import StridedAccess
from .tile import Tile

#: What a symbolic extent is taken for where extents are compared.
TYPICAL = 64
#: How many rows make a tile worthwhile.
ENOUGH = 4


def extent(kernel: Kernel, a: Axis) -> int:
    """The extent of an axis, or what it is taken for."""
    return kernel.bounds(a).within(TYPICAL)


def vector_axis(kernel: Kernel) -> Axis | None:
    """The spatial axis along which everything that a reduction reads is contiguous or one."""

    def fits(a: Axis) -> bool:
        steps = [x.step(a.var) for x in kernel.reads]
        return all(s in (0, 1) for s in steps) and 1 in steps

    found = [a for a in kernel.axes if fits(a)]
    return max(found, key=lambda a: _value(kernel, a), default=None)


def _value(kernel: Kernel, a: Axis) -> tuple[int, int, int]:
    stores = sum(x.step(a.var) == 1 for x in kernel.writes)
    late = sum(x.step(a.var) in (0, 1) for x in kernel.late)
    return stores, min(extent(kernel, a), TYPICAL), late


def row_axis(kernel: Kernel, j: Axis) -> Axis | None:
    """The axis whose points share what is loaded along the vector axis; else any other.

    One whose extent is known is better: rows of another may be computed twice.
    """

    def value(a: Axis) -> tuple[int, bool, int, int]:
        shared = sum(x.step(j.var) == 1 and x.step(a.var) == 0 for x in kernel.reads)
        scalars = sum(x.step(j.var) == 0 and x.step(a.var) == 0 for x in kernel.reads)
        return shared, (a.static or 0) >= ENOUGH, min(extent(kernel, a), TYPICAL), scalars

    others = [a for a in kernel.axes if a is not j]
    return max(others, key=value, default=None)


def reuses(kernel: Kernel, i: Axis, j: Axis) -> bool:
    """Whether rows share a vector."""
    return any(x.step(j.var) == 1 and x.step(i.var) == 0 for x in kernel.reads)


def order(kernel: Kernel, i: Axis | None, j: Axis, tile: Tile) -> list[Axis]:
    """The loops, such that the larger of what rows and vectors read is read once."""
    along = [x for x in kernel.reads if x.step(j.var) != 0]
    across = [x for x in kernel.reads if x.step(j.var) == 0]
    if i is None or not along or not across:
        return [a for a in kernel.axes if a is not i and a is not j] + [
            a for a in (i, j) if a is not None
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


def _uses(accesses: Sequence[StridedAccess], a: Axis) -> bool:
    return any(x.step(a.var) != 0 for x in accesses)


def _size(kernel: Kernel, accesses: Sequence[StridedAccess]) -> int:
    """About how many elements some accesses read."""
    every = [(a, extent(kernel, a)) for a in kernel.all_axes]
    return max(prod(n for a, n in every if x.step(a.var) != 0) for x in accesses)


def depth(kernel: Kernel) -> int:
    return prod(extent(kernel, a) for a in kernel.reduced)
