"""Reductions over axes that are not contiguous: lanes are neighbouring rows.

for j; k: s[j] += x[k, j]

s_acc[v] += x[k, 8 * t + v]                 each thread: 8 rows, every 16th k
s_part[p, 8 * t + v] = s_acc[v]             shared memory
s_sum[j] = sum of s_part[p, j] over p       one thread for each row
y[k, 8 * t + v] = x[…] / s_sum[8 * t + v]   a softmax: again each thread
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import tirx

from ......analysis.blocks.tir import Values, seq, values
from ......analysis.lifting.tir.node import as_dtype, substitute
from ..program.combiners import combiner
from ..program.gpu_program import GpuProgram, NoGpuSchedule, itemsize
from ..program.merged_axes import positions_of, static_range
from ..program.row_space import RowSpace, row_space, substituted
from ..program.thread_loops import (
    BLOCK,
    THREAD,
    load,
    local,
    number,
    store,
    thread_loop,
    unrolled,
    when,
)
from ..program.vector_loads import narrowest_item, widest
from .column_parts import added_parts
from .row_accesses import merged_rows, reads_along, vector_buffers
from .row_kernel import RowEmitter
from .row_registers import CHUNKS, WARP, RowTile

#: Threads of a block, those of one whose rows several steps read, and blocks that fill a GPU.
THREADS, SEVERAL_STEPS, ENOUGH = 512, 256, 128
#: Bytes of a thread's rows that leave room for several blocks.
FEW_REGISTERS = 128
#: Bytes that memory reads together, and that a thread loads at least.
SECTOR, SMALLEST = 32, 4


def columns_kernel(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of a program whose neighbouring rows are contiguous, and its buffers.

    Raises:
        NoGpuSchedule: The steps share no rows, or neighbouring rows are not contiguous.
    """
    return _columns(program, *row_space(program), WARP)


def short_columns_kernel(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of a program over rows of any length, as `columns_kernel` does."""
    return _columns(program, *row_space(program, shortest=2), 1)


def _columns(
    program: GpuProgram, space: RowSpace, length: int, fewest: int
) -> tuple[Any, list[Any]]:
    if not space.rows:
        raise NoGpuSchedule("there is one row")
    widest_first = [_Columns(program, space, length, (fewest, most)) for most in (32, 16, 8)]
    reasons = []
    for emitter in (*(e for e in widest_first if e.fits()), widest_first[0]):
        try:
            return emitter()
        except NoGpuSchedule as error:
            reasons.append(error)
    raise reasons[-1]


class _Columns(RowEmitter):
    """A block has ``across`` threads side by side, each with a vector of rows.

    ``limits`` are the fewest threads of a block, and the most of them side by side.
    """

    most_chunks = CHUNKS

    def __init__(
        self, program: GpuProgram, space: RowSpace, length: int, limits: tuple[int, int]
    ) -> None:
        self.fewest, self.most = limits
        super().__init__(program, space, length)

    def fits(self) -> bool:
        """Whether what several steps read stays in few registers, so that blocks overlap."""
        self.count_uses(self.rows_at(tirx.Var("vector", "int64")))
        try:
            self.check_registers()
        except NoGpuSchedule:
            return False
        finally:
            self.uses.clear()
        return self.resident and self.kept_bytes <= FEW_REGISTERS

    def shape(self) -> RowTile:
        program, space = self.program, self.space
        self.row_groups = merged_rows(program, space)
        size = narrowest_item(vector_buffers(program, space))
        width, self.across = _sides(space.count, self.row_groups.sizes[-1], size, self.most)
        once = sum(bool(row.columns) for row in space.steps) == 1
        most, threads = THREADS if once else SEVERAL_STEPS, 1
        while threads * 2 * self.across <= most and threads * 4 <= self.length:
            threads *= 2
        if threads * self.across < self.fewest:
            raise NoGpuSchedule("few threads share a row")
        lane = space.rows[-1].var
        if not any(row.columns and reads_along(program, space, row, lane) for row in space.steps):
            raise NoGpuSchedule("neighbouring rows are not contiguous")
        return RowTile(width, self.length, threads, self.across)

    # ------------------------------------------------------------------ the kernel

    def __call__(self) -> tuple[Any, list[Any]]:
        tile, vectors = self.tile, self.space.count // self.tile.width
        blocks = vectors // self.across
        block, self.side = tirx.Var("block", "int64"), tirx.Var("side", "int64")
        for var, extent in ((block, blocks), (self.side, self.across), (self.thread, tile.threads),
                            (self.chunk, tile.chunks), (self.lane, tile.width)):  # fmt: skip
            self.analyzer.bind(var, static_range(extent))
        vector = block * number(self.across) + self.side
        at = self.rows_at(vector)
        self.count_uses(at)
        self.check_registers()
        body = seq([part for step in self.space.steps for part in self.phase(step, at)])
        nest = thread_loop(BLOCK, blocks, lambda b: substitute(body, values((block, b))))
        return nest, self.buffers

    def rows_at(self, vector: Any) -> Values:
        """The rows of a vector of them."""
        width = self.tile.width
        return self.row_groups.at(positions_of(self.row_groups, vector, width), width, self.lane)

    def over_threads(self, body: Any) -> Any:
        def threads(x: Any) -> Any:
            side = x % number(self.across) if self.tile.threads > 1 else x
            return substitute(
                body, values((self.side, side), (self.thread, x // number(self.across)))
            )

        return thread_loop(THREAD, self.tile.threads * self.across, threads)

    def where(self, row: Any, at: Values) -> Values:
        groups, where = self.groups[id(row)], Values()
        for var, value in at.items():
            where[var] = value
        for var, value in groups.at(positions_of(groups, self.place(), 1)).items():
            where[var] = value
        return where

    def total(self, register: Any) -> Any:
        return load(register, self.side * number(self.tile.width) + self.lane)

    def once(self, row: Any, at: Values) -> Any:
        lanes, out, after = self.lanes(), [], []
        for update in row.step.updates:
            lets, value = self.value(row, update.value, at, lanes)
            indices = [self.analyzer.simplify(substituted(row, i, at)) for i in update.indices]
            each, copies = self.vector_store(update.buffer, indices, value, lanes)
            out += [*lets, each]
            after += copies
        self.buffers += lanes.registers
        body = seq([*lanes.statements(), self.each_lane(seq(out)), *after])
        return when(tirx.EQ(self.thread, number(0)), body)

    def reduction(self, row: Any, at: Values) -> list[Any]:
        tile, where, first, inner, after = self.tile, self.where(row, at), [], [], []
        lanes, rows = self.lanes(), self.across * self.tile.width
        for update in row.step.updates:
            combine, name = combiner(update), update.buffer.name
            acc = local(f"{name}_acc", [tile.width], combine.dtype)
            part = local(f"{name}_part", [tile.threads, rows], combine.dtype, "shared")
            total = local(f"{name}_sum", [rows], combine.dtype, "shared")
            if tile.threads * rows * itemsize(part) > 32 * 1024:
                raise NoGpuSchedule("parts exceed shared memory")
            self.buffers += [acc, part, total]
            lets, term = self.value(row, combine.term, where, lanes)
            init = combine.start(update.init)
            first.append(unrolled("u", tile.width, partial(store, acc, init)))
            inner += [*lets, store(acc, combine(load(acc, self.lane), term), self.lane)]
            after.append(self.shared(acc, part))
            add, more = added_parts(part, total, init, combine, tile.threads * self.across)
            self.buffers += more
            after.append(add)
            self.row_values[update.buffer] = total
        self.buffers += lanes.registers
        phase = seq([*first, self.chunks(seq([*lanes.statements(), self.each_lane(seq(inner))]))])
        return [self.over_threads(phase), *after, *self.stored(row, at)]

    def shared(self, acc: Any, part: Any) -> Any:
        place = self.side * number(self.tile.width)
        return self.over_threads(unrolled("u", self.tile.width, lambda v: store(
            part, load(acc, v), self.thread, place + v)))  # fmt: skip

    def stored(self, row: Any, at: Values) -> list[Any]:
        lanes, out, after = self.lanes(), [], []
        for update in row.step.updates:
            if update.buffer not in self.program.params:
                continue
            indices = [self.analyzer.simplify(substituted(row, i, at)) for i in update.indices]
            value = as_dtype(
                self.total(self.row_values[update.buffer]), str(update.buffer.ty.dtype)
            )
            each, copies = self.vector_store(update.buffer, indices, value, lanes)
            out.append(each)
            after += copies
        if not out:
            return []
        body = seq([self.each_lane(seq(out)), *after])
        return [self.over_threads(when(tirx.EQ(self.thread, number(0)), body))]


def _sides(rows: int, extent: int, size: int, most: int) -> tuple[int, int]:
    """Return the lanes of a thread and the threads side by side.

    They are as many as leave enough blocks, but read at least 32 bytes, which memory reads anyway.
    """
    width = widest(size, extent)
    while True:
        vectors = rows // width
        across = [k for k in range(1, most + 1) if vectors % k == 0]
        enough = [k for k in across if vectors // k >= ENOUGH and k * width * size >= SECTOR]
        if enough:
            return width, max(enough)
        if width == 1 or width * size <= SMALLEST:
            break
        width //= 2
    width = widest(size, extent)
    across = [k for k in range(1, most + 1) if rows // width % k == 0]
    return width, min((k for k in across if k * width * size >= SECTOR), default=across[-1])
