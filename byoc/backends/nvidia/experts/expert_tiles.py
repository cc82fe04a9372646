"""Products of many rows with matrices of their experts, on tensor cores.

A block has some columns of one expert. It looks for the rows of that expert, and multiplies tiles
of them with a tile of weights, which it dequantises into shared memory:

    chosen[0 .. total) = the rows r with ids[r] == e                 rows need not be sorted
    for each tile of chosen rows, for each step of the depth:
        left[i, k] = x[chosen[i], k];  right[n, k] = w[e, n, k]      read one step ahead
        acc += left · rightᵀ                                         16 x 16 x 16, in float32
    y[chosen[i], n] = acc[i, n]
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq, static
from .....analysis.lifting.tir.node import as_dtype
from ..grouped_weights.grouped_product import GroupedProduct
from ..grouped_weights.storage import HALVES
from ..schedules.program.gpu_program import NoGpuSchedule
from ..schedules.program.thread_loops import (
    BLOCK,
    BLOCK_ROW,
    ROW,
    THREAD,
    barrier,
    load,
    local,
    number,
    serial,
    store,
    thread_loop,
    unrolled,
    vectorized,
    when,
)
from .expert_rows import ExpertRows
from .fragments import SIDE, Fragments
from .tile_weights import TileWeights

#: Threads of a warp, warps of a block, and halves of a vector of 16 bytes.
WARP, WARPS, LANES = 32, 4, 8
#: Columns of a block; rows of a tile; the depth of a step, and elements after it that are not used.
COLUMNS, ROWS, DEPTH, PAD = (128, 64), (16, 32, 64), 64, 8
#: The most rows: their numbers are in shared memory.
MOST = 2048


def expert_tiles(what: GroupedProduct) -> tuple[Any, list[Any]]:
    """Return the kernel of a product of many rows with experts, and its buffers.

    Raises:
        NoGpuSchedule: The sizes do not fill tiles, or it is not about halves.
    """
    experts = what.experts
    if experts is None or experts.rows > MOST:
        raise NoGpuSchedule(f"expected at most {MOST} rows with experts")
    if str(what.x.ty.dtype) not in HALVES or static(what.x.ty.shape[0]) != experts.rows:
        raise NoGpuSchedule("rows of halves are multiplied on tensor cores, each with its own")
    if what.depth % DEPTH or what.columns % COLUMNS[-1]:
        raise NoGpuSchedule(f"{what.columns} columns of {what.depth} values do not fill tiles")
    kernel = _Tiles(what)
    return kernel(), kernel.buffers


class _Tiles:
    """Emits the kernel: each block of threads computes a tile of the result of one expert."""

    def __init__(self, what: GroupedProduct) -> None:
        assert what.experts is not None
        self.what, self.experts = what, what.experts
        self.matrices = static(what.words.ty.shape[0]) or 0
        self.columns = next(c for c in COLUMNS if what.columns % c == 0)
        each = -(-self.experts.rows // self.matrices)
        self.rows = next((r for r in ROWS if r >= each), ROWS[-1])
        self.threads = WARP * WARPS
        kind, name = str(what.x.ty.dtype), what.result.name
        self.found = ExpertRows(self.experts, name, self.threads)
        self.left = local(f"{name}_left", [self.rows, DEPTH + PAD], kind, "shared")
        self.right = local(f"{name}_right", [self.columns, DEPTH + PAD], kind, "shared")
        self.vectors = self.rows * DEPTH // LANES // self.threads
        self.next = local(f"{what.x.name}_next", [self.vectors, LANES], kind)
        self.weights = TileWeights(what, self.right, self.columns, DEPTH, self.threads)
        grid = self.rows // SIDE, self.columns // WARPS // SIDE
        self.fragments = Fragments(name, kind, *grid, WARPS)
        self.buffers = [*self.found.buffers, self.left, self.right, self.next,
                        *self.weights.buffers, *self.fragments.buffers]  # fmt: skip

    def __call__(self) -> Any:
        blocks = self.what.columns // self.columns

        def block(expert: Any, b: Any) -> Any:
            column = b * number(self.columns)
            return thread_loop(ROW, WARPS, lambda y: thread_loop(
                THREAD, WARP, lambda x: self.thread(expert, column, y, x)))  # fmt: skip

        return thread_loop(BLOCK_ROW, self.matrices, lambda e: thread_loop(
            BLOCK, blocks, lambda b: block(e, b)))  # fmt: skip

    def thread(self, expert: Any, column: Any, y: Any, x: Any) -> Any:
        """The statements of a thread."""
        t = y * number(WARP) + x
        total = load(self.found.total, number(0))
        tiles = tirx.floordiv(total + number(self.rows - 1), number(self.rows))
        var = tirx.Var("tile", "int64")
        tile = self.tile(expert, column, var * number(self.rows), y, x, t)
        loop = tirx.For(var, number(0), tiles, tirx.ForKind.SERIAL, tile)
        return seq([*self.found.find(expert, t), self.fragments.begin(y, x), loop])

    def tile(self, expert: Any, column: Any, first: Any, y: Any, x: Any, t: Any) -> Any:
        """Multiply the rows from ``first`` on."""
        steps = self.what.depth // DEPTH

        def step(k: Any) -> Any:
            after = (k + number(1)) * number(DEPTH)
            return seq([
                barrier(), self.place(t), self.weights.place(t), barrier(),
                when(k < number(steps - 1), self.read(expert, column, first, after, t)),
                self.fragments.multiply(self.left, self.right, y, DEPTH),
            ])  # fmt: skip

        return seq([
            self.fragments.clear(), self.read(expert, column, first, number(0), t),
            serial("k", steps, step),
            self.fragments.each(y, x, lambda i, n, v: self.result(column, first, y, i, n, v)),
        ])  # fmt: skip

    def read(self, expert: Any, column: Any, first: Any, depth: Any, t: Any) -> Any:
        """Load the next step of a thread: zeros for rows behind the last one."""
        x, zero = self.what.x, tirx.const(0.0, str(self.what.x.ty.dtype))

        def vector(q: Any) -> Any:
            i, k = self.position(q, t)
            row = self.found.row(first + i)
            loaded = vectorized("v", LANES, lambda v: store(
                self.next, load(x, row, depth + k + v), q, v))  # fmt: skip
            empty = vectorized("v", LANES, lambda v: store(self.next, zero, q, v))
            return tirx.IfThenElse(self.found.has(first + i), loaded, empty)

        return seq([
            unrolled("q", self.vectors, vector), self.weights.read(expert, column, depth, t)
        ])  # fmt: skip

    def place(self, t: Any) -> Any:
        """Store the activations that were read in shared memory."""

        def vector(q: Any) -> Any:
            i, k = self.position(q, t)
            return vectorized("v", LANES, lambda v: store(
                self.left, load(self.next, q, v), i, k + v))  # fmt: skip

        return unrolled("q", self.vectors, vector)

    def position(self, q: Any, t: Any) -> list[Any]:
        """The row and the depth, in a tile, of vector ``q`` of a thread."""
        row, part = digits_of(q * number(self.threads) + t, DEPTH // LANES)
        return [row, part * number(LANES)]

    def result(self, column: Any, first: Any, y: Any, i: Any, n: Any, value: Any) -> Any:
        """Store an element of a tile, of row ``i`` and of column ``n`` of a warp."""
        result = self.what.result
        where = [self.found.row(first + i), column + y * number(self.columns // WARPS) + n]
        done = store(result, as_dtype(value, str(result.ty.dtype)), *where)
        return when(self.found.has(first + i), done)


def digits_of(index: Any, size: int) -> tuple[Any, Any]:
    """The quotient and the remainder."""
    return tirx.floordiv(index, number(size)), tirx.floormod(index, number(size))
