"""The threads of a row, and what of the row they keep in registers between steps.

x_reg[c, v] = x[i, (c * threads + t) * width + v]     chunk c, lane v of thread t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi

from ......analysis.blocks.strides import strided_access
from ......analysis.blocks.tir import Values, mentions
from ......analysis.lifting.tir.node import NodeDict, as_dtype, items
from ..program.gpu_program import GpuProgram, NoGpuSchedule, itemsize, unguarded
from ..program.merged_axes import simplified
from ..program.row_space import RowSpace, RowStep, same_index, substituted
from ..program.thread_loops import load, number
from ..program.vector_loads import VectorLanes, VectorLoad, contiguous
from .row_accesses import parts_of

WARP, MOST_THREADS = 32, 1024
#: Threads of a block that has several rows.
TOGETHER = 256
#: Threads that fill a GPU; rows get more threads until there are as many.
ENOUGH = 132 * 512
#: Bytes of a row that a thread keeps in registers, and vectors that it unrolls.
REGISTERS, CHUNKS = 320, 8
#: Threads of a block of which two fit a multiprocessor, so that one loads while the other computes,
#: and vectors of a single tensor that each of them has registers for.
HALF, LONG = 512, 10
#: Elements of a row that a thread has before the row gets more threads, and of one that is read in
#: a single step, of which nothing has to stay in registers.
ELEMENTS, READ_ONCE = 32, 64


@dataclass(frozen=True)
class RowTile:
    """``threads`` of a row, each with ``chunks`` vectors of ``width``; ``rows`` of a block."""

    width: int
    vectors: int
    threads: int
    rows: int

    @property
    def chunks(self) -> int:
        return -(-self.vectors // self.threads)

    @property
    def exact(self) -> bool:
        return self.chunks * self.threads == self.vectors


class RowRegisters:
    """Loads that several steps have, and results that several read, in registers.

    Attributes:
        row_values: The registers of reductions.
        kept: Buffers, their flat index or their indices, and the registers that hold them.
        uses: Buffers, flat indices, and the steps that load there.
        resident: Whether rows stay in registers; `kept_bytes` is what they take of a thread.
    """

    program: GpuProgram
    space: RowSpace
    tile: RowTile
    chunk: Any
    lane: Any
    thread: Any
    analyzer: Any
    row_values: NodeDict[Any]
    kept: list[tuple[Any, list[Any], Any]]
    uses: list[tuple[Any, Any, set[int]]]
    resident: bool
    kept_bytes: int
    most_chunks = CHUNKS  # that a thread keeps

    def where(self, row: RowStep, at: Values) -> Values:
        """The axes of a step at a chunk and a lane of the row ``at``."""
        raise NotImplementedError

    def register(self, name: str, shape: list[int], like: Any) -> Any:
        """New registers of each thread."""
        raise NotImplementedError

    def count_uses(self, at: Values) -> None:
        """Note which loads of parameters several steps have."""
        for k, row in enumerate(self.space.steps):
            if not row.columns:
                continue
            where = self.where(row, at)
            for part in parts_of(self.program, row):
                for expr in unguarded(part):
                    if expr.source in self.program.params:
                        self.note(simplified(substituted(row, expr, where), self.analyzer), k)

    def note(self, expr: Any, step: int) -> None:
        if self.chunk not in mentions(expr) and self.thread not in mentions(expr):
            return
        flat = self.flat(expr)
        for buffer, known, steps in self.uses:
            if buffer.same_as(expr.source) and tvm_ffi.structural_equal(known, flat):
                steps.add(step)
                return
        self.uses.append((expr.source, flat, {step}))

    def flat(self, expr: Any) -> Any:
        return strided_access(expr.source, items(expr.indices), [], self.analyzer).flat

    def check_registers(self) -> None:
        tile = self.tile
        kept = [b for b, _ in self.program.kept.items()]
        shared = [b for b, _, steps in self.uses if len(steps) > 1]
        self.kept_bytes = sum(itemsize(b) for b in [*kept, *shared]) * tile.chunks * tile.width
        self.resident = self.kept_bytes <= REGISTERS and tile.chunks <= self.most_chunks
        if kept and not self.resident:
            raise NoGpuSchedule("rows are too long to keep their values")

    def total(self, register: Any) -> Any:
        return load(register, number(0))

    def lanes(self) -> VectorLanes:
        lanes = VectorLanes(self.lane, self.tile.width, self.analyzer)

        def cached(expr: Any) -> Any | None:
            total = self.row_values.get(expr.source)
            if total is not None:
                return as_dtype(self.total(total), str(expr.ty.dtype))
            if expr.source in self.program.kept:
                return self.kept_value(expr)
            return self.shared_value(expr, lanes) if self.resident else None

        lanes.cached = cached
        return lanes

    def kept_value(self, expr: Any) -> Any:
        for buffer, indices, register in self.kept:
            if buffer.same_as(expr.source):
                if same_index(items(expr.indices), indices, self.analyzer):
                    return load(register, self.chunk, self.lane)
                raise NoGpuSchedule("a step reads values of other threads")
        raise NoGpuSchedule("a step reads what was not computed")

    def shared_value(self, expr: Any, lanes: VectorLanes) -> Any | None:
        flat = self.flat(expr)
        if not any(b.same_as(expr.source) and len(s) > 1 and tvm_ffi.structural_equal(f, flat)
                   for b, f, s in self.uses):  # fmt: skip
            return None
        for buffer, known, register in self.kept:
            if buffer.same_as(expr.source) and tvm_ffi.structural_equal(known[0], flat):
                return load(register, self.chunk, self.lane)
        if lanes.guard is not None or lanes.scalar:
            return None
        shape = [self.tile.chunks, self.tile.width]
        register = self.register(f"{expr.source.name}_row", shape, expr.source)
        self.kept.append((expr.source, [flat], register))
        vector = contiguous(expr.source, items(expr.indices), self.lane, self.tile.width,
                            self.analyzer)  # fmt: skip
        lanes.copies.append(VectorLoad(register, (self.chunk,), expr, None, vector))
        return load(register, self.chunk, self.lane)


def tile_of(
    rows: int, vectors: int, width: int, many: bool = False, elements: int = ELEMENTS, long: int = 0
) -> RowTile:
    """Return the threads for a number of rows of vectors; ``many``: of each of many coordinates.

    ``elements``: of a row, which a thread has at most while more threads can share it. ``long``:
    vectors that each of 512 threads may have, before there are 1024.
    """
    threads = WARP
    few = max(1, min(CHUNKS, elements // width))
    while (
        threads < MOST_THREADS
        and vectors > threads
        and (
            vectors > threads * (max(few, long) if threads == HALF else few)
            or (not many and rows * threads < ENOUGH)
        )
    ):
        threads *= 2
    if threads > WARP:
        return RowTile(width, vectors, threads, 1)
    threads = next((t for t in (32, 16, 8, 4) if 4 * vectors >= 3 * t * -(-vectors // t)), WARP)
    most = TOGETHER // threads
    together = [k for k in range(most, 0, -1) if rows % k == 0]
    whole = [k for k in together if k * threads % WARP == 0]
    if not whole:  # a block is whole warps
        threads, together = WARP, [k for k in together if k <= TOGETHER // WARP]
    return RowTile(width, vectors, threads, (whole or together)[0])
