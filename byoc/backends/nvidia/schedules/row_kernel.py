"""Norms, softmax and other functions of rows: a row is in the registers of its threads.

    for i; k: s[i] += x[i, k]                      for i, k: y[i, k] = x[i, k] / s[i]

    x_reg[c, v] = x[i, …]                          vectors of 16 bytes
    s_acc[0] += x_reg[c, v]                        each thread
    s_row[0] = sum of s_acc[0] over threadIdx.x    by shuffles
    y[i, …] = x_reg[c, v] / s_row[0]

A row has 32 threads, or more if it is long or rows are few; long rows are read again instead.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.tir import Values, seq, values
from .....analysis.lifting.tir.node import NodeDict, substitute
from .program.combiners import combinations
from .program.gpu_program import GpuProgram, NoGpuSchedule, expanded
from .program.merged_axes import MergedAxes, positions_of, simplified, static_range
from .program.row_space import RowSpace, RowStep, row_space, substituted
from .program.thread_loops import (
    BLOCK,
    ROW,
    THREAD,
    in_turns,
    load,
    local,
    number,
    reduce_threads,
    store,
    stored_together,
    thread_loop,
    unrolled,
    when,
)
from .program.vector_loads import VectorLanes, contiguous, narrowest_item, widest
from .row_accesses import merged_columns, reads_along, vector_buffers
from .row_registers import CHUNKS, ELEMENTS, READ_ONCE, WARP, RowRegisters, RowTile, tile_of

#: Terms of a row that its threads share if there are at most so many in all rows.
FEW_TERMS, FEW_ROWS = 8, 1 << 16


def rows_kernel(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of a program over rows, and its buffers.

    Raises:
        NoGpuSchedule: The steps share no rows, rows are of different lengths, or too long to keep
            what several steps read.
    """
    return RowEmitter(program, *row_space(program))()


def few_rows_kernel(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of a program over so few rows that one thread each would be slow.

    Raises:
        NoGpuSchedule: There are many rows, or as `rows_kernel`.
    """
    space, length = row_space(program, shortest=FEW_TERMS)
    if space.count * length > FEW_ROWS:
        raise NoGpuSchedule("there are many rows")
    return RowEmitter(program, space, length)()


def short_rows_kernel(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of a program over rows of any length, as `rows_kernel` does."""
    return RowEmitter(program, *row_space(program, shortest=2))()


class RowEmitter(RowRegisters):
    """Emits the phases of a kernel in which threads share a row; lanes are elements of the row."""

    def __init__(self, program: GpuProgram, space: RowSpace, length: int) -> None:
        self.program, self.space, self.length = program, space, length
        self.groups = {id(s): merged_columns(program, space, s) for s in space.steps}
        self.tile = self.shape()
        self.buffers: list[Any] = []
        self.row_values: NodeDict[Any] = NodeDict()  # registers of reductions
        self.kept: list[tuple[Any, list[Any], Any]] = []  # buffer, flat index or indices, register
        self.chunk, self.lane = tirx.Var("c", "int64"), tirx.Var("v", "int64")
        self.thread = tirx.Var("thread", "int64")
        self.analyzer = tvm.sym.Analyzer()
        self.uses: list[tuple[Any, Any, set[int]]] = []

    def shape(self) -> RowTile:
        program, space = self.program, self.space
        if not any(row.columns and reads_along(program, space, row, row.columns[-1].var)
                   for row in space.steps):  # fmt: skip
            raise NoGpuSchedule("rows are not contiguous")
        width = widest(narrowest_item(vector_buffers(program, space)), self.length)
        for row in space.steps:
            if row.columns:
                width = min(width, widest(16 // width, self.groups[id(row)].sizes[-1]))
        once = sum(bool(row.columns) for row in space.steps) == 1
        elements = READ_ONCE if once else ELEMENTS
        return tile_of(space.count, self.length // width, width, bool(program.outer), elements)

    # ------------------------------------------------------------------ the kernel

    def __call__(self) -> tuple[Any, list[Any]]:
        tile, rows = self.tile, self.space.count
        blocks = rows // tile.rows
        block, line = tirx.Var("block", "int64"), tirx.Var("line", "int64")
        for var, extent in ((block, blocks), (line, tile.rows), (self.thread, tile.threads),
                            (self.chunk, tile.chunks), (self.lane, tile.width)):  # fmt: skip
            self.analyzer.bind(var, static_range(extent))
        row = block if tile.rows == 1 else block * number(tile.rows) + line
        at = MergedAxes((self.space.rows,)).at([row]) if self.space.rows else Values()
        self.count_uses(at)
        self.check_registers()
        phases: list[Any] = []
        for step in self.space.steps:
            phases += self.phase(step, at)
        body = seq([p for p in phases])
        nest = thread_loop(BLOCK, blocks, lambda b: self.lines(body, block, line, b))
        return nest, self.buffers

    def lines(self, body: Any, block: Any, line: Any, at: Any) -> Any:
        if self.tile.rows == 1:
            return substitute(body, values((block, at), (line, number(0))))
        return thread_loop(ROW, self.tile.rows, lambda y: substitute(
            body, values((block, at), (line, y))))  # fmt: skip

    def over_threads(self, body: Any) -> Any:
        body = self.with_totals_once(body)
        return thread_loop(THREAD, self.tile.threads, lambda x: substitute(
            body, values((self.thread, x))))  # fmt: skip

    def with_totals_once(self, body: Any) -> Any:
        """Statements that read each total of a row once.

        Of several warps TVM keeps totals in volatile shared memory, so that every use would be a
        load, and functions of them would be evaluated for each element.
        """
        if self.tile.threads <= WARP:
            return body
        names: NodeDict[Any] = NodeDict()

        def once(node: Any, mutator: Any) -> Any:
            if not any(node.source.same_as(t) for t in self.row_values.values()):
                return mutator.default_mutate(node)
            if node.source not in names:
                names[node.source] = tirx.Var(f"{node.source.name}_once", str(node.ty.dtype))
            return names[node.source]

        body = tvm_ffi.structural_mutate(body, [(tvm.ir.TensorLoad, once)])
        return seq([*(tirx.Bind(v, load(b, number(0))) for b, v in names.items()), body])

    def phase(self, row: RowStep, at: Values) -> list[Any]:
        if not row.step.reduced:
            return [self.over_threads(self.spatial(row, at))]
        return self.reduction(row, at)

    # ------------------------------------------------------------------ columns

    def where(self, row: RowStep, at: Values) -> Values:
        """The axes of a step at a chunk and a lane of the row ``at``."""
        groups, where = self.groups[id(row)], Values()
        for var, value in at.items():
            where[var] = value
        positions = positions_of(groups, self.place(), self.tile.width)
        for var, value in groups.at(positions, self.tile.width, self.lane).items():
            where[var] = value
        return where

    def valid(self) -> Any | None:
        """The condition that a chunk is within the row, or None."""
        if self.tile.exact:
            return None
        return self.place() < number(self.tile.vectors)

    def place(self) -> Any:
        """The vector of a thread in its row."""
        if self.tile.chunks == 1:
            return self.thread
        return self.chunk * number(self.tile.threads) + self.thread

    def chunks(self, body: Any) -> Any:
        whole = when(self.valid(), body)
        return in_turns(self.chunk, self.tile.chunks, CHUNKS, whole)

    @property
    def order(self) -> list[tuple[Any, int]]:
        """The loops in which a thread combines the terms of a row."""
        return [(self.chunk, self.tile.chunks), (self.lane, self.tile.width)]

    def each_lane(self, body: Any) -> Any:
        return unrolled("u", self.tile.width, lambda v: substitute(body, values((self.lane, v))))

    def spatial(self, row: RowStep, at: Values) -> Any:
        if not row.columns:
            return self.once(row, at)
        where = self.where(row, at)
        lanes = self.lanes()
        inner, after = [], []
        for update in row.step.updates:
            lets, value = self.value(row, update.value, where, lanes)
            indices = [self.analyzer.simplify(substituted(row, i, where)) for i in update.indices]
            if update.buffer in self.program.kept:
                shape = [self.tile.chunks, self.tile.width]
                register = self.register(f"{update.buffer.name}_row", shape, update.buffer)
                self.kept.append((update.buffer, indices, register))
                inner += [*lets, store(register, value, self.chunk, self.lane)]
                continue
            each, copies = self.vector_store(update.buffer, indices, value, lanes)
            inner += [*lets, each]
            after += copies
        self.buffers += lanes.registers
        return self.chunks(seq([*lanes.statements(), self.each_lane(seq(inner)), *after]))

    def vector_store(
        self, buffer: Any, indices: list[Any], value: Any, lanes: VectorLanes
    ) -> tuple[Any, list[Any]]:
        """The store of each lane, and the copies of all lanes after it, if they are contiguous."""
        if not contiguous(buffer, indices, self.lane, self.tile.width, self.analyzer):
            return store(buffer, value, *indices), []
        register = self.register(f"{buffer.name}_out", [self.tile.width], buffer)

        def copy(v: Any) -> Any:
            place = (substitute(e, values((self.lane, v))) for e in indices)
            return store(buffer, load(register, v), *place)

        return store(register, value, self.lane), [lanes.lanes(str(buffer.ty.dtype), copy)]

    def once(self, row: RowStep, at: Values) -> Any:
        """The results of a row without columns, which one thread stores."""
        lanes, out = self.lanes(), []
        for update in row.step.updates:
            lets, value = self.value(row, update.value, at, lanes)
            indices = [self.analyzer.simplify(substituted(row, i, at)) for i in update.indices]
            out += [*lets, store(update.buffer, value, *indices)]
        return when(tirx.EQ(self.thread, number(0)), seq(out))

    def reduction(self, row: RowStep, at: Values) -> list[Any]:
        where, first, inner, after = self.where(row, at), [], [], []
        lanes = self.lanes()
        for combine in combinations(row.step):
            accs, totals = (
                [local(f"{u.buffer.name}_{part}", [1], t)
                 for u, t in zip(combine.updates, combine.dtypes, strict=True)]
                for part in ("acc", "row"))  # fmt: skip
            self.buffers += [*accs, *totals]
            terms = []
            for expr in combine.terms:
                lets, term = self.value(row, expr, where, lanes)
                inner += lets
                terms.append(term)
            first += [store(acc, e, number(0)) for acc, e in zip(accs, combine.starts, strict=True)]
            thread = combine.in_order(self.order, terms[0], self.analyzer)
            inner += stored_together(accs, thread([load(a, number(0)) for a in accs], terms))
            after.append(
                reduce_threads(THREAD, self.tile.threads, totals, combine.neutral(), accs, combine)
            )
            for update, total in zip(combine.updates, totals, strict=True):
                self.row_values[update.buffer] = total
        self.buffers += lanes.registers
        phase = seq([*first, self.chunks(seq([*lanes.statements(), self.each_lane(seq(inner))]))])
        return [self.over_threads(phase), *after, *self.stored(row, at)]

    def stored(self, row: RowStep, at: Values) -> list[Any]:
        """The results of a reduction that are the PrimFunc's own."""
        out = []
        for update in row.step.updates:
            if update.buffer not in self.program.params:
                continue
            indices = [self.analyzer.simplify(substituted(row, i, at)) for i in update.indices]
            value = load(self.row_values[update.buffer], number(0))
            out.append(self.over_threads(when(tirx.EQ(self.thread, number(0)),
                                              store(update.buffer, value, *indices))))  # fmt: skip
        return out

    def value(
        self, row: RowStep, expr: Any, where: Values, lanes: VectorLanes
    ) -> tuple[list[Any], Any]:
        lets, value = expanded(expr, self.program.definitions)
        binds = [tirx.Bind(var, lanes(simplified(substituted(row, e, where), self.analyzer)))
                 for var, e in lets]  # fmt: skip
        return binds, lanes(simplified(substituted(row, value, where), self.analyzer))

    def register(self, name: str, shape: list[int], like: Any) -> Any:
        buffer = local(name, shape, str(like.ty.dtype))
        self.buffers.append(buffer)
        return buffer
