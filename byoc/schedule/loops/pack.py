"""Pack the columns of an operand that a tile needs into a contiguous strip.

    for jt:  for k, l: strip[k, l] = w[k, jt * 32 + l]
             for it, k: acc[…] += x[it, k] * strip[k, l]

Cache lines at a distance of a large power of two share the sets of a cache. If the rows of a strip
start such a ``gap`` apart, the cache holds ``cache / gap`` of them. A strip with more rows would be
fetched from the next level by every tile, so packing pays; otherwise the copy costs more than it
saves. There is a single strip, so it works on one core only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.strides import StridedAccess, strided_access
from ....analysis.blocks.tir import Values, dtype_of, integer, loads, local, loop, seq, values
from ....analysis.lifting.tir.node import items, substitute
from ...codegen.vector_units import VectorUnits, bits
from ..nest.kernel import Kernel
from .loop_nest import LoopNest
from .runs import AxisRun, Columns, Rows
from .tile import Tile

#: Minimum number of tiles that use a strip, and its maximum size in bytes. Copying a vector took as
#: long as fetching 7 to 10 vectors.
USES, MOST = 12, 768 << 10
#: Cache lines at this distance in bytes share a set of the L2 cache.
WAY = 64 << 10


@dataclass(frozen=True)
class Strip:
    """A packed operand: its load, the reduction axes that it depends on, and its buffer."""

    load: Any
    axes: tuple[Axis, ...]
    buffer: Any


def choose_strip(
    kernel: Kernel, machine: VectorUnits, tile: Tile, loops: Sequence[Axis],
    row_axis: Axis | None, vector_axis: Axis,
) -> Strip | None:  # fmt: skip
    """Return the operand to pack, or None if it is reused too rarely, too small or too large."""
    if row_axis is None or vector_axis.static is None or machine.cores > 1:
        return None
    if kernel.before or len(kernel.accumulators) != 1:
        return None
    axes = [a.var for a in kernel.all_axes]
    accesses = [(e, strided_access(e.source, items(e.indices), axes, kernel.analyzer))
                for e in loads(kernel.accumulators[0].update)]  # fmt: skip
    along = [(e, x) for e, x in accesses if x.step(vector_axis.var) == 1]
    if len(along) != 1:
        return None
    expr, access = along[0]
    after = loops[list(loops).index(vector_axis) + 1 :]
    least = [(a, kernel.bounds(a).low) for a in after]
    uses = prod(-(-n // tile.rows) if a is row_axis else n for a, n in least)
    if uses < USES or any(access.step(a.var) != 0 for a in after):
        return None
    reduced = tuple(a for a in kernel.reduced if access.step(a.var) != 0)
    counts = [a.static or 0 for a in reduced]
    size = bits(dtype_of(expr)) // 8
    width = tile.lanes * tile.vectors
    if not counts or prod(counts) * _gap(access, reduced, size) < 2 * machine.cache:
        return None
    if prod(counts) * width * size > MOST:
        return None
    return Strip(expr, reduced, local("strip", [*counts, width], dtype_of(expr)))


def _gap(access: StridedAccess, reduced: Sequence[Axis], size: int) -> int:
    """Return the largest power of two that divides the row pitch in bytes; 1 if unknown."""
    steps = [access.step(a.var) for a in reduced]
    bytes_ = gcd(*(s * size if s is not None and s > 0 else 1 for s in steps))
    return min(bytes_ & -bytes_, WAY)


@dataclass
class Packed(LoopNest):
    """A loop nest that reads one operand from a strip; ``lane`` indexes the strip."""

    strip: Strip | None = None
    lane: Any = None

    @classmethod
    def of(
        cls, kernel: Kernel, machine: VectorUnits, tile: Tile, loops: Sequence[Axis],
        row_axis: Axis | None, vector_axis: Axis, strip: Strip,
    ) -> Packed:  # fmt: skip
        lane = tirx.Var("lane", dtype_of(vector_axis.var))
        load = tirx.BufferLoad(strip.buffer, [*(a.var for a in strip.axes), lane])

        def packed(expr: Any, mutator: Any) -> Any:
            same = tvm_ffi.structural_equal(expr, strip.load)
            return load if same else mutator.default_mutate(expr)

        (accumulator,) = kernel.accumulators
        update = tvm_ffi.structural_mutate(accumulator.update, [(tvm.ir.TensorLoad, packed)])
        new = replace(kernel, accumulators=(replace(accumulator, update=update),))
        return cls(new, machine, tile, loops, row_axis, vector_axis, strip=strip, lane=lane)

    def __call__(self) -> Any:
        assert self.strip is not None
        return seq([tirx.AllocBuffer(self.strip.buffer), super().__call__()])

    def tile_body(self, k: int, rows: Rows, cols: Columns) -> Any:
        assert self.strip is not None
        filled = self._fill(self.strip, self.strip.axes, Values(), cols)
        return seq([filled, super().tile_body(k, rows, cols)])

    def _fill(self, strip: Strip, axes: Sequence[Axis], at: Values, cols: Columns) -> Any:
        if axes:
            first = axes[0]

            def body(var: Any) -> Any:
                at[first.var] = var
                return self._fill(strip, axes[1:], at, cols)

            return loop(first.var.name, first.extent, first.var, body)
        rows = [at[a.var] for a in strip.axes]
        around = values(*self.at.items(), *at.items())
        out = []
        for run in cols:

            def vectors(vector: Any, run: AxisRun = run) -> Any:
                def copy_lane(lane: Any) -> Any:
                    at_lane = self.place(None, run, integer(0, vector), vector, lane)
                    value = substitute(strip.load, values(*around.items(), *at_lane.items()))
                    return tirx.BufferStore(strip.buffer, value, [*rows, at_lane[self.lane]])

                return loop("l", run.lanes, vector, copy_lane, tirx.ForKind.VECTORIZED)

            like = integer(0, self.lane)
            out.append(loop("c", run.count, like, vectors, tirx.ForKind.UNROLLED))
        return seq(out)

    def place(self, rows: Rows, run: AxisRun, row: Any, vector: Any, lane: Any) -> Values:
        at = super().place(rows, run, row, vector, lane)
        at[self.lane] = vector * integer(run.lanes, vector) + lane + integer(run.offset, vector)
        return at
