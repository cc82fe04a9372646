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

from ......analysis.blocks.tir import Values, loads, seq, values
from ......analysis.lifting.tir.node import NodeDict, substitute
from ..program.gpu_program import GpuProgram, NoGpuSchedule, itemsize
from ..program.merged_axes import MergedAxes, static_range
from ..program.row_space import RowSpace, row_space
from ..program.thread_loops import BLOCK, ROW, THREAD, load, number, thread_loop
from ..program.vector_loads import WIDEST, narrowest_item, widest
from .row_accesses import merged_columns, parts_of, reads_along, vector_buffers
from .row_phases import RowPhases
from .row_registers import ELEMENTS, LONG, READ_ONCE, WARP, RowTile, tile_of

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


class RowEmitter(RowPhases):
    """Emits a kernel in which threads share a row; lanes are elements of the row."""

    most_chunks = LONG

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
        long = LONG if not once and self.keeps_one(width) else 0
        return tile_of(
            space.count, self.length // width, width, bool(program.outer), elements, long
        )

    def keeps_one(self, width: int) -> bool:
        """Whether a row takes the registers of one tensor: 16 bytes for each vector."""
        sources: NodeDict[None] = NodeDict()
        for expr in (e for row in self.space.steps if row.step.reduced
                     for part in parts_of(self.program, row) for e in loads(part)):  # fmt: skip
            if expr.source in self.program.params:
                sources[expr.source] = None
        size = sum(itemsize(b) for b, _ in sources.items()) * width
        return not self.program.kept.items() and size <= WIDEST

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
