"""Emit a kernel's loop nest with vectors along one axis and rows of another in registers.

    for i, j, k: out[i, j] += x[i, k] * w[k, j]

    for jt, it:                            tiles
      acc_0, acc_1: 16 elements each       rows it * 2 and it * 2 + 1
      for k:
        for l in vectorized(16): acc_0[l] += x[it * 2, k] * w[k, jt * 16 + l]
        for l in vectorized(16): acc_1[l] += x[it * 2 + 1, k] * w[k, jt * 16 + l]
      for l in vectorized(16): out[it * 2, jt * 16 + l] = acc_0[l]; …

Nothing is predicated. If a tile may not divide a symbolic axis, fewer rows or single vectors
follow. The last ones are shifted back to end with the axis, so some elements are computed twice, to
the same value. Kernels that must not compute elements twice end with single rows and elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import Values, integer, loop, seq
from ....analysis.lifting.tir.node import as_dtype
from ...codegen.vector_units import VectorUnits
from ..nest.kernel import Kernel
from .runs import AxisRun, Columns, Rows, at_most, decreasing_tiles, grouped_runs, vector_run
from .tile import Tile, columns, pieces
from .tile_kernel import TileKernel

#: Lanes of the shortest vectors along a symbolic axis; half vectors come next, then full ones.
FEW = 4


@dataclass
class LoopNest(TileKernel):
    """Emits a kernel with rows along ``row_axis`` and vectors along ``vector_axis``.

    Both are optional. ``order`` lists all axes from the outermost loop. ``unrolled`` repeats the
    code of a tile for each point of the reduction, so that LLVM loads common elements once.
    """

    kernel: Kernel
    machine: VectorUnits
    tile: Tile
    order: Sequence[Axis]
    row_axis: Axis | None
    vector_axis: Axis | None
    parallel: bool = True
    unrolled: bool = False
    at: Values = field(default_factory=Values)
    #: The extent of a symbolic vector axis, and the tile that the nest is emitted for.
    end: Any = None
    shape: tuple[int, int] = (1, 1)

    def __call__(self) -> Any:
        axis = self.vector_axis
        if axis is None or axis.static is not None:
            return self._level(0, None, ())
        self.end, dtype = axis.extent, str(axis.var.ty.dtype)
        bindings: list[Any] = []
        if not isinstance(axis.extent, tirx.Var):  # TVM would simplify every expression with it
            self.end = tirx.Var("end", dtype)
            bindings.append(tirx.stmt.Bind(self.end, as_dtype(axis.extent, dtype)))
        self.end = as_dtype(self.end, dtype)
        return seq([*bindings, self._by_width(axis) if self.kernel.twice
                    else self._level(0, None, ())])  # fmt: skip

    def _by_width(self, axis: Axis) -> Any:
        """Emit the nest for tiles, vectors or elements, the widest that the axis has room for.

        The choice is outside of all loops: rows may be as short as a vector.
        """
        bounds, lanes = self.kernel.bounds(axis), self.tile.lanes
        few = min(lanes, FEW)
        shapes = (1, 1), (few, 1), (max(few, lanes // 2), 1), (lanes, 1), (lanes, self.tile.vectors)
        nest: Any = None
        for shape in dict.fromkeys(shapes):
            width = shape[0] * shape[1]
            if nest is not None and bounds.high is not None and bounds.high < width:
                continue
            self.shape = shape
            wider = self._level(0, None, ())
            if nest is None or bounds.low >= width:
                nest = wider
            else:
                nest = tirx.IfThenElse(self.end >= integer(width, axis.var), wider, nest)
        return nest

    def _level(self, k: int, rows: Rows, cols: Columns) -> Any:
        """Emit the loop over the k-th axis and all inside it."""
        if k == len(self.order):
            return self.micro(rows, cols)
        axis = self.order[k]
        if axis is self.row_axis:
            return self._rows(axis, lambda run: self._level(k + 1, run, cols), self._kind(k))
        if axis is self.vector_axis:
            return self._columns(axis, lambda runs: self.tile_body(k, rows, runs), self._kind(k))

        def body(var: Any) -> Any:
            self.at[axis.var] = var
            return self._level(k + 1, rows, cols)

        return loop(axis.var.name, axis.extent, axis.var, body, self._kind(k))

    def tile_body(self, k: int, rows: Rows, cols: Columns) -> Any:
        """Emit the body of the loop over tiles of columns."""
        return self._level(k + 1, rows, cols)

    def _kind(self, k: int) -> Any:
        """Return the kind of the k-th loop: the outermost one is parallel."""
        parallel = self.parallel and self.machine.cores > 1 and k == 0
        return tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL

    # ------------------------------------------------------------------------ tiles

    def _rows(self, axis: Axis, body: Callable[[AxisRun], Any], kind: Any) -> Any:
        """Emit tiles of rows, then the fewer rows that remain."""
        most = self.tile.rows

        def nest(base: Any, size: int, count: Any, last: Any = None) -> Any:
            def tiles(index: Any) -> Any:
                first = index * integer(size, index) + base
                return body(AxisRun(lambda r: at_most(first + r, last), size))

            return loop("it", count, axis.var, tiles, kind)

        if axis.static is not None:
            return seq([nest(integer(start, axis.var), size, count)
                        for start, count, size in pieces(axis.static, most)])  # fmt: skip
        bounds = self.kernel.bounds(axis)
        divides = bounds.multiple % most == 0
        if not self.kernel.twice:
            sizes = (most,) if divides else (most, 1)
            return seq([nest(b, s, n) for b, s, n in decreasing_tiles(axis.extent, axis, sizes)])
        end, zero = as_dtype(axis.extent, str(axis.var.ty.dtype)), integer(0, axis.var)
        full = tirx.FloorDiv(end, integer(most, axis.var))
        if divides or most == 1:
            return nest(zero, most, full)
        last = end - integer(1, axis.var)
        if bounds.high is not None and bounds.high <= most:
            return nest(zero, most, tirx.Min(end, integer(1, axis.var)), last)
        first = full * integer(most, axis.var)
        return seq([nest(zero, most, full), self._last_rows(axis, first, last, body)])

    def _last_rows(self, axis: Axis, first: Any, last: Any, body: Callable[[AxisRun], Any]) -> Any:
        """Emit the fewer rows after the full tiles, in a tile of the next power of two.

        A full tile for them would take twice as long where there are few rows.
        """
        most = self.tile.rows

        def tile(size: int) -> Any:
            return body(AxisRun(lambda r: tirx.Min(first + r, last), size))

        heights = [1 << k for k in range(most.bit_length()) if 1 << k < most - 1]
        nest = tile(most - 1)
        for size in reversed(heights):
            nest = tirx.IfThenElse(last - first < integer(size, axis.var), tile(size), nest)
        return tirx.IfThenElse(first <= last, nest, None)

    def _columns(self, axis: Axis, body: Callable[[Columns], Any], kind: Any) -> Any:
        """Emit tiles of vectors, then what remains of the axis."""
        vectors = self.tile.vectors
        if axis.static is None:
            return self._symbolic(axis, body, kind)
        cover = columns(axis.static, self.tile.lanes, self.kernel.twice)
        lanes = cover[0][1]
        full_tiles = axis.static // (lanes * vectors)
        out = []
        if full_tiles:
            out.append(self._tiles(axis, body, kind, full_tiles, lanes, vectors))
        remainder = cover[full_tiles * vectors :]
        if remainder:
            out.append(body(grouped_runs(remainder, axis)))
        return seq(out)

    def _tiles(
        self, axis: Axis, body: Callable[[Columns], Any], kind: Any, count: Any, lanes: int,
        vectors: int, base: Any = None, last: Any = None,
    ) -> Any:  # fmt: skip
        """Emit tiles of ``vectors`` vectors from ``base``; none starts after ``last``."""

        def tiles(index: Any) -> Any:
            first = index * integer(lanes * vectors, index)
            if base is not None:
                first = first + base
            if last is None:
                return body([vector_run(first, vectors, lanes)])
            start = tirx.Var("col", str(index.ty.dtype))
            binding = tirx.stmt.Bind(start, tirx.Min(first, last))
            return seq([binding, body([vector_run(start, vectors, lanes)])])

        return loop("jt", count, axis.var, tiles, kind)

    def _symbolic(self, axis: Axis, body: Callable[[Columns], Any], kind: Any) -> Any:
        """Emit tiles, then single vectors, the last of which is moved back to end with the axis.

        If nothing may be computed twice, emit tiles, then vectors, then elements.
        """
        bounds, most = self.kernel.bounds(axis), self.tile.vectors
        if not self.kernel.twice:
            lanes = self.tile.lanes
            return seq([
                self._tiles(axis, body, kind, n, min(size, lanes), max(1, size // lanes), base)
                for base, size, n in decreasing_tiles(self.end, axis,
                                                       bounds.until(lanes * most, lanes, 1))
            ])  # fmt: skip
        lanes, vectors = self.shape
        size, width = (integer(n, axis.var) for n in (lanes * vectors, lanes))
        full = tirx.FloorDiv(self.end, size)
        if bounds.multiple % (lanes * vectors) == 0:
            return self._tiles(axis, body, kind, full, lanes, vectors)
        base = None if vectors == 1 else full * size
        rest = self.end if base is None else self.end - base
        count = tirx.FloorDiv(rest + width - integer(1, axis.var), width)
        last = self._tiles(axis, body, kind, count, lanes, 1, base, self.end - width)
        if base is None:
            return last
        return seq([self._tiles(axis, body, kind, full, lanes, vectors), last])
