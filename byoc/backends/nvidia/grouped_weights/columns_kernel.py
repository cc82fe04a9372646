"""Products of few rows with packed weights whose columns are neighbours in memory.

    words[c, n .. n + 3]            16 bytes: a word of each of four columns
    acc[r, m] += the values of word c of column n + r, times x[m]         packed_vector.py
    shared[y, d][m, n + r] = acc[r, m];  b[m, n] = sum over y, d of shared[y, d][m, n]

Eight threads of a warp read a line of 128 bytes, the others lines below. All warps of a block share
its 32 columns.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq
from ..schedules.program.gpu_program import NoGpuSchedule
from ..schedules.program.thread_loops import (
    BLOCK,
    ROW,
    THREAD,
    load,
    local,
    number,
    serial,
    store,
    thread_loop,
    when,
)
from .grouped_product import GroupedProduct
from .packed_vector import PackedVector, sum_of
from .product_results import ProductResults
from .thread_sum import summed

#: Threads of a warp, columns of a thread, and threads of a warp beside each other.
WARP, EACH, ACROSS = 32, 4, 8
#: Columns of a block, and words of a column that a warp reads together.
COLUMNS, DOWN = EACH * ACROSS, WARP // ACROSS


def columns_kernel(what: GroupedProduct) -> tuple[Any, list[Any]]:
    """Return the kernel of a product over words along columns, and its buffers.

    Raises:
        NoGpuSchedule: The columns do not fill blocks.
    """
    if what.columns % COLUMNS:
        raise NoGpuSchedule(f"{what.columns} columns are not a multiple of {COLUMNS}")
    vector = PackedVector(what, EACH)
    warps = min(splits_of(what.rows), -(-vector.vectors // DOWN))
    name = what.result.name
    size = what.rows * COLUMNS
    shared = local(f"{name}_shared", [warps * DOWN, size], "float32", "shared")

    def own(at: Any, y: Any, x: Any) -> Any:
        across, down = tirx.floormod(x, number(ACROSS)), tirx.floordiv(x, number(ACROSS))
        thread = y * number(DOWN) + down
        first = across * number(EACH)
        done = seq([
            store(shared, load(vector.acc, number(r), number(m)), thread,
                  number(m * COLUMNS + r) + first)
            for r in range(EACH) for m in range(what.rows)
        ])  # fmt: skip
        return summed(vector, at * number(COLUMNS) + first, thread, warps * DOWN, done)

    def results(at: Any, y: Any, x: Any) -> Any:
        threads = warps * WARP
        steps = -(-size // threads)

        def result(t: Any) -> Any:
            k = y * number(WARP) + x
            k = k if steps == 1 else t * number(threads) + k
            m, n = tirx.floordiv(k, number(COLUMNS)), tirx.floormod(k, number(COLUMNS))
            total = sum_of([load(shared, number(j), k) for j in range(warps * DOWN)])
            m = number(0) if what.rows == 1 else m
            out = ProductResults(what)(m, at * number(COLUMNS) + n, total)
            return when(None if size % threads == 0 else k < number(size), out)

        return serial("t", steps, result)

    def block(at: Any) -> Any:
        def warp(y: Any) -> Any:
            return seq([
                thread_loop(THREAD, WARP, lambda x: own(at, y, x)),
                thread_loop(THREAD, WARP, lambda x: results(at, y, x)),
            ])  # fmt: skip

        return thread_loop(ROW, warps, warp)

    nest = thread_loop(BLOCK, what.columns // COLUMNS, block)
    return nest, [*vector.buffers, shared]


def splits_of(rows: int) -> int:
    """The most warps of a block, such that their sums take at most 16 KiB."""
    return 16 if rows <= 2 else 8 if rows <= 4 else 4
