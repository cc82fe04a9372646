"""Tiles of tensor cores: a warp has a grid of 16 x 16 sums, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq
from ..schedules.program.thread_loops import barrier, load, local, number, store, unrolled

#: The side of a tile, and threads of a warp.
SIDE, WARP = 16, 32


class Fragments:
    """The sums of a warp, and the statements over them.

    Args:
        name: The stem of the names of buffers.
        kind: The dtype of both operands.
        rows, columns: Tiles of a warp.
        warps: Warps of a block.

    Attributes:
        buffers: All buffers.
    """

    def __init__(self, name: str, kind: str, rows: int, columns: int, warps: int) -> None:
        self.rows, self.columns = rows, columns
        size = SIDE * SIDE
        self.left = local(f"{name}_a", [rows * size], kind, "wmma.matrix_a")
        self.right = local(f"{name}_b", [columns * size], kind, "wmma.matrix_b")
        self.sums = local(f"{name}_c", [rows * columns * size], "float32", "wmma.accumulator")
        self.stage = local(f"{name}_stage", [warps, size], "float32", "shared")
        self.buffers = [self.left, self.right, self.sums, self.stage]

    def begin(self, warp: Any, lane: Any) -> Any:
        """Write the staging tile: TVM may give memory of halves to buffers that are used later."""
        return store(self.stage, tirx.FloatImm("float32", 0.0), warp, lane)

    def clear(self) -> Any:
        """Set the sums to zero."""
        zero = tirx.FloatImm("float32", 0.0)
        return unrolled("c", self.rows * self.columns, lambda c: tirx.Evaluate(
            tirx.op.tvm_fill_fragment(self.sums.data, SIDE, SIDE, SIDE, c, zero)))  # fmt: skip

    def multiply(self, left: Any, right: Any, warp: Any, depth: int) -> Any:
        """Add the products of rows of ``left`` with rows of ``right``, which are a warp's."""
        first = warp * number(self.columns * SIDE)

        def step(k: Any) -> Any:
            at = k * number(SIDE)
            return seq([
                unrolled("i", self.rows, lambda i: self._load(
                    self.left, i, left, i * number(SIDE), at, "row_major")),
                unrolled("j", self.columns, lambda j: self._load(
                    self.right, j, right, first + j * number(SIDE), at, "col_major")),
                unrolled("i", self.rows, lambda i: unrolled(
                    "j", self.columns, lambda j: self._add(i, j))),
            ])  # fmt: skip

        return unrolled("kk", depth // SIDE, step)

    def each(self, warp: Any, lane: Any, put: Callable[[Any, Any, Any], Any]) -> Any:
        """Do something with each sum: its row, its column in those of the warp, and its value."""
        count = SIDE * SIDE // WARP

        def tile(i: Any, j: Any) -> Any:
            pointer = _pointer(self.stage, warp * number(SIDE * SIDE), "w")
            stage = tirx.op.tvm_store_matrix_sync(
                self.sums.data, SIDE, SIDE, SIDE, self._sum(i, j), pointer, SIDE, "row_major"
            )

            def element(q: Any) -> Any:
                at = q * number(WARP) + lane
                row, column = (f(at, number(SIDE)) for f in (tirx.floordiv, tirx.floormod))
                return put(i * number(SIDE) + row, j * number(SIDE) + column,
                           load(self.stage, warp, at))  # fmt: skip

            return seq([barrier(), tirx.Evaluate(stage), barrier(), unrolled("q", count, element)])

        return unrolled("i", self.rows, lambda i: unrolled(
            "j", self.columns, lambda j: tile(i, j)))  # fmt: skip

    def _sum(self, i: Any, j: Any) -> Any:
        return i * number(self.columns) + j

    def _load(self, to: Any, k: Any, tile: Any, row: Any, column: Any, layout: str) -> Any:
        width = tile.ty.shape[1]
        pointer = _pointer(tile, row * width + column, "r")
        return tirx.Evaluate(tirx.op.tvm_load_matrix_sync(
            to.data, SIDE, SIDE, SIDE, k, pointer, width, layout))  # fmt: skip

    def _add(self, i: Any, j: Any) -> Any:
        at = self._sum(i, j)
        return tirx.Evaluate(tirx.op.tvm_mma_sync(
            self.sums.data, at, self.left.data, i, self.right.data, j, self.sums.data, at,
        ))  # fmt: skip


def _pointer(buffer: Any, start: Any, mode: str) -> Any:
    """A pointer to an element; TVM drops loads through an address of an expression."""
    return buffer.access_ptr(mode, ptr_type=str(buffer.ty.dtype), offset=start)
