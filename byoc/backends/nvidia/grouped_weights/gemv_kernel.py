"""Products of few rows with weights that are quantised by group: the words are read once.

    acc[r, m] += vectors of words of column n + r, times x[m]         packed_vector.py
    b[m, n + r] = sum of acc[r, m] over threadIdx.x

Threads of a column share its depth; each has several columns, which share the activations.
A thread whose sums are not finite computes them again, as ``x * (scale * value)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from .....analysis import Refusal
from .....analysis.blocks.tir import seq
from ..schedules.gpu_schedule import DONE
from ..schedules.program.gpu_program import NoGpuSchedule
from ..schedules.program.thread_loops import (
    BLOCK,
    BLOCK_ROW,
    ROW,
    THREAD,
    bound,
    kernels,
    load,
    local,
    number,
    reduce_threads,
    store,
    thread_loop,
    when,
)
from .columns_kernel import columns_kernel
from .grouped_product import GroupedProduct, grouped_product, has_words, plain_product
from .half_vector import HalfVector
from .packed_vector import PackedVector, sum_of
from .product_results import ProductResults
from .storage import MOST_ROWS
from .thread_sum import summed

#: Threads of a warp, and bits of a byte.
WARP, BYTE = 32, 8
#: Warps of a block, where columns are short; warps that share a column, where they are long.
WARPS, SPLITS = 4, 16
#: Warps that share a column of weights of 8 bits, and columns of a thread, in one step and in more.
#: A vector has few values; loads of fewer columns stay together.
SPLITS_OF_BYTES, COLUMNS_OF_BYTES = 8, (1, 2)


@dataclass(frozen=True)
class GemvTile:
    """How threads share a product.

    Attributes:
        columns: Columns of a thread.
        splits: Warps that share a column.
        lines: Groups of such warps in a block.
    """

    columns: int
    splits: int
    lines: int


def tile_of(rows: int, columns: int, vectors: int, bits: int = 4) -> GemvTile:
    """Return the tile for a product with this number of vectors of words in a column.

    Args:
        rows: The rows of activations.
        columns: The columns of weights.
        vectors: Vectors of words in a column.
        bits: The bits of a weight.
    """
    most, share = 4 if rows <= 2 else 2, SPLITS
    if rows == 1 and bits == BYTE:
        share = SPLITS_OF_BYTES
        most = COLUMNS_OF_BYTES[vectors > WARP * share]
    each = max(r for r in (1, 2, 4) if r <= most and columns % r == 0)
    steps = -(-vectors // (WARP * share))
    splits = -(-vectors // (WARP * steps))
    lines = max(1, WARPS // splits)
    while columns % (each * lines):
        lines //= 2
    return GemvTile(each, splits, lines)


def gemv_kernel(what: GroupedProduct, tile: GemvTile | None = None) -> tuple[Any, list[Any]]:
    """Return the kernel of a product, and its buffers.

    Raises:
        NoGpuSchedule: It has many rows, or its words do not lie along its sums.
    """
    if not 0 < what.rows <= MOST_ROWS:
        raise NoGpuSchedule(f"{what.rows} rows, expected at most {MOST_ROWS}")
    if not what.along:
        return columns_kernel(what)
    kind = HalfVector if what.scale is None else PackedVector
    tile = tile or tile_of(what.rows, what.columns, kind(what, 1).vectors, what.bits)
    return _Gemv(what, tile, kind(what, tile.columns))()


def packed_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc over threads that multiplies few rows; ``func`` is not changed."""
    try:
        what = grouped_product(func) if has_words(func) else plain_product(func)
        nest, buffers = gemv_kernel(what)
    except NoGpuSchedule as error:
        return Refusal(f"few rows: {error}")
    return kernels(func, [nest], buffers).with_attr(DONE, True)


class _Gemv:
    """Emits the kernel: each warp computes some columns of the result."""

    def __init__(self, what: GroupedProduct, tile: GemvTile, vector: PackedVector) -> None:
        self.what, self.tile, self.vector = what, tile, vector
        name = what.result.name
        size = tile.columns * what.rows
        self.sums = [local(f"{name}_{k}", [1], "float32") for k in range(2 * size)]
        self.shared = local(f"{name}_shared", [tile.splits * tile.lines, size], "float32", "shared")
        self.buffers = [*vector.buffers, self.shared, *self.sums]

    def __call__(self) -> tuple[Any, list[Any]]:
        tile = self.tile
        blocks = self.what.columns // (tile.columns * tile.lines)

        def block(at: Any) -> Any:
            def warp(y: Any) -> Any:
                return self.warp(at * number(tile.lines), y)

            return thread_loop(ROW, tile.lines * tile.splits, warp)

        nest, experts = thread_loop(BLOCK, blocks, block), self.what.experts
        if experts is not None:
            nest = bound(BLOCK_ROW, experts.rows, experts.row, nest)
        return nest, self.buffers

    def warp(self, groups: Any, y: Any) -> Any:
        """The statements of a warp of a block whose first group of columns is ``groups``."""
        tile, size = self.tile, self.tile.columns * self.what.rows
        split, line = y, number(0)
        if tile.splits == 1:
            split, line = line, y
        elif tile.lines > 1:
            split, line = (f(y, number(tile.splits)) for f in (tirx.floormod, tirx.floordiv))
        column = (groups + line) * number(tile.columns)
        parts = [thread_loop(THREAD, WARP, lambda x: self.sum(column, split, x))]
        for k in range(size):
            own, total = self.sums[2 * k], self.sums[2 * k + 1]
            parts.append(reduce_threads(THREAD, WARP, [total], [tirx.FloatImm("float32", 0.0)],
                                        [own], lambda a, b: [a[0] + b[0]]))  # fmt: skip
        shared = seq([store(self.shared, load(self.sums[2 * k + 1], number(0)), y, number(k))
                      for k in range(size)])  # fmt: skip
        parts.append(thread_loop(THREAD, WARP, lambda x: when(tirx.EQ(x, number(0)), shared)))

        def end(x: Any) -> Any:
            inside = x < number(size)
            if tile.splits > 1:
                inside = tirx.And(inside, tirx.EQ(split, number(0)))
            return when(inside, self.results(column, line, x))

        parts.append(thread_loop(THREAD, WARP, end))
        return seq(parts)

    def sum(self, column: Any, split: Any, lane: Any) -> Any:
        """The part of a thread of the sums of its columns."""
        tile, rows, vector = self.tile, self.what.rows, self.vector
        thread = lane if tile.splits == 1 else split * number(WARP) + lane
        own = [(self.sums[2 * (r * rows + m)], load(vector.acc, number(r), number(m)))
               for r in range(tile.columns) for m in range(rows)]  # fmt: skip
        done = seq([store(to, total, number(0)) for to, total in own])
        return summed(vector, column, thread, WARP * tile.splits, done)

    def results(self, column: Any, line: Any, lane: Any) -> Any:
        """The result of a lane, which adds up what the warps of its column have."""
        tile, rows = self.tile, self.what.rows
        total = sum_of([load(self.shared, line * number(tile.splits) + number(k), lane)
                        for k in range(tile.splits)])  # fmt: skip
        r, m = (lane, number(0)) if rows == 1 else (
            tirx.floordiv(lane, number(rows)), tirx.floormod(lane, number(rows)))  # fmt: skip
        return ProductResults(self.what)(m, column + r, total)
