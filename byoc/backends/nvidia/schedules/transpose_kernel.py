"""Permutations of axes: tiles go through shared memory, so that reads and writes are contiguous.

for i, j: y[i, j] = f(x[j, i], b[j])

tile[j, i] = x[j, i]          vectors along i
y[i, j] = f(tile[j, i], b[j]) vectors along j
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import Values, loads, seq, static, values
from .....analysis.lifting.tir.node import items, substitute
from .program.gpu_program import GpuProgram, NoGpuSchedule, expanded, itemsize, product, unguarded
from .program.merged_axes import MergedAxes, bound, merged, simplified, static_range
from .program.thread_loops import (
    BLOCK,
    THREAD,
    load,
    local,
    number,
    padded,
    store,
    thread_loop,
    unrolled,
    when,
)
from .program.vector_loads import VectorLanes, contiguous, narrowest_item, widest

#: Elements of a side and of an area of a tile, threads of a block, and bytes of its shared memory.
SIDE, THREADS, SHARED = 64, 256, 48 * 1024
#: Shorter axes are not worth a tile.
SHORT = 16
#: Blocks that fill a GPU; there are smaller tiles if there would be fewer.
ENOUGH = 2 * 132


@dataclass(frozen=True)
class Staged:
    """A load that goes through ``tile``, indexed by the positions along the write and the read."""

    access: Any
    tile: Any


def transposed(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of one step that reads along another axis than it writes.

    Raises:
        NoGpuSchedule: It has no such read, or the axes are short.
    """
    return _Transpose(program)()


class SingleStep:
    """A step without reductions that reads along another axis than it writes."""

    read_group: int

    def __init__(self, program: GpuProgram) -> None:
        steps = program.steps
        if len(steps) != 1 or len(steps[0].updates) != 1 or steps[0].reduced:
            raise NoGpuSchedule("more than one result")
        self.step = steps[0]
        (self.update,) = self.step.updates
        self.lets, self.value = expanded(self.update.value, program.definitions)
        self.parts = [*(e for _, e in self.lets), self.value]
        self.axes = self.step.axes
        self.groups = self.merged()

    def merged(self) -> MergedAxes:
        variables, analyzer = [a.var for a in self.axes], bound(self.axes)
        accesses = [strided_access(e.source, items(e.indices), variables, analyzer)
                    for part in self.parts for e in loads(part)]  # fmt: skip
        accesses.append(
            strided_access(self.update.buffer, self.update.indices, variables, analyzer)
        )
        axes = [a for a in self.axes if static(a.extent) != 1]
        return merged(axes, accesses, self.parts)

    def find(self, guarded: bool = False) -> tuple[int, list[Any]]:
        """Return the group of axes along which loads are contiguous, and these loads.

        ``guarded``: count loads under conditions too.
        """
        taken = loads if guarded else unguarded
        inner = [group[-1].var for group in self.groups.groups]
        analyzer = bound(self.axes)
        found: list[Any] = []
        place: int | None = None
        for expr in (e for part in self.parts for e in taken(part)):
            access = strided_access(expr.source, items(expr.indices), inner, analyzer)
            if not inner or access.step(inner[-1]) in (0, 1):
                continue
            at = [k for k, var in enumerate(inner[:-1]) if access.step(var) == 1]
            if len(at) != 1 or place not in (None, at[0]):
                continue
            place = at[0]
            if not any(tvm_ffi.structural_equal(e, expr) for e in found):
                found.append(expr)
        if place is None:
            raise NoGpuSchedule("no load is contiguous along another axis")
        return place, found

    def others(self, flat: Any) -> list[Any]:
        """The positions in all groups but the last and the one of the reads."""
        moved = (self.read_group, len(self.groups.groups) - 1)
        rest = MergedAxes(tuple(g for k, g in enumerate(self.groups.groups) if k not in moved))
        return rest.split(flat)

    def axes_at(self, positions: list[Any]) -> Values:
        """The axes at a position in each group."""
        out = self.groups.at(positions)
        for axis in self.axes:
            if static(axis.extent) == 1:
                out[axis.var] = tirx.IntImm(str(axis.var.ty.dtype), 0)
        return out


def _place(thread: Any, i: Any, width: int, across: int, threads: int) -> tuple[Any, Any]:
    """The first element of a thread's vector in a line of a tile, and the line.

    Args:
        thread: The thread.
        i: How many vectors it had before.
        width: The elements of a vector.
        across: The vectors of a line.
        threads: The threads of a block.
    """
    line = thread // number(across) + i * number(threads // across)
    return thread % number(across) * number(width), line


class _Transpose(SingleStep):
    """Emits the kernel of a single step that permutes axes."""

    def __init__(self, program: GpuProgram) -> None:
        super().__init__(program)
        self.read_group, accesses = self.find()
        sizes = self.groups.sizes
        if sizes[self.read_group] < SHORT or sizes[-1] < SHORT:
            raise NoGpuSchedule("an axis is short")
        self.reads, self.writes = sizes[self.read_group], sizes[-1]
        self.shape()
        self.staged = [self.stage(e) for e in accesses]
        if sum(product([int(s) for s in s.tile.ty.shape]) * itemsize(s.tile)
               for s in self.staged) > SHARED:  # fmt: skip
            raise NoGpuSchedule("tiles exceed shared memory")
        self.along_read, self.along_write = tirx.Var("a", "int64"), tirx.Var("b", "int64")
        self.buffers = [s.tile for s in self.staged]

    def shape(self) -> None:
        """Choose the sides of a tile, powers of two."""
        others = product(self.groups.sizes) // (self.reads * self.writes)
        side = SIDE
        while side > 32 and others * -(-self.reads // side) * -(-self.writes // side) < ENOUGH:
            side //= 2
        self.b = min(side, _power(self.writes))
        self.a = min(side * side // self.b, _power(self.reads))
        self.rest = others

    def stage(self, expr: Any) -> Staged:
        dtype = str(expr.source.ty.dtype)
        return Staged(expr, local(f"{expr.source.name}_tile", [self.b, self.a], dtype, "shared"))

    # ------------------------------------------------------------------ the kernel

    def __call__(self) -> tuple[Any, list[Any]]:
        tiles_a, tiles_b = -(-self.reads // self.a), -(-self.writes // self.b)
        blocks = self.rest * tiles_a * tiles_b
        block, thread = tirx.Var("block", "int64"), tirx.Var("thread", "int64")
        tile_a, tile_b = block // number(tiles_b) % number(tiles_a), block % number(tiles_b)
        other = block // number(tiles_a * tiles_b)
        start_a, start_b = tile_a * number(self.a), tile_b * number(self.b)
        width_b = widest(min(narrowest_item([self.update.buffer]), 16), self.writes)
        widths = [widest(itemsize(s.access.source), self.reads) for s in self.staged]
        threads = min(THREADS, self.a * self.b // max(width_b, *widths))
        if threads < 32:
            raise NoGpuSchedule("the tile is small")
        analyzer = tvm.sym.Analyzer()
        analyzer.bind(block, static_range(blocks))
        analyzer.bind(thread, static_range(threads))
        reading = [self.read(s, w, threads, thread, other, start_a, start_b, analyzer)
                   for s, w in zip(self.staged, widths, strict=True)]  # fmt: skip
        writing = self.write(width_b, threads, thread, other, start_a, start_b, analyzer)

        def over(body: Any, b: Any) -> Any:
            return thread_loop(THREAD, threads, lambda x: substitute(
                body, values((block, b), (thread, x))))  # fmt: skip

        nest = thread_loop(BLOCK, blocks, lambda b: seq([over(seq(reading), b), over(writing, b)]))
        return nest, self.buffers

    def at(self, other: Any, a: Any, b: Any) -> Values:
        """The axes at a position along the read, one along the write, and one of all others."""
        positions = self.others(other)
        positions.insert(self.read_group, a)
        return self.axes_at([*positions, b])

    def read(
        self, staged: Staged, width: int, threads: int, thread: Any, other: Any,
        start_a: Any, start_b: Any, analyzer: Any,
    ) -> Any:  # fmt: skip
        lane, i = tirx.Var("v", "int64"), tirx.Var("i", "int64")
        across = self.a // width
        times = self.b * across // threads
        analyzer.bind(lane, static_range(width))
        analyzer.bind(i, static_range(times))
        first, line = _place(thread, i, width, across, threads)
        a, b = start_a + first, start_b + line
        inside = self.inside(a, b)
        at = self.at(other, a + lane, b)
        access = simplified(substitute(staged.access, at), analyzer)
        lanes = VectorLanes(lane, width, analyzer)
        vector = width > 1 and contiguous(
            access.source, items(access.indices), lane, width, analyzer
        )
        register = local(f"{access.source.name}_reg", [times, width], str(access.source.ty.dtype))
        self.buffers.append(register)

        def one(v: Any) -> Any:
            return store(register, substitute(access, values((lane, v))), i, v)

        dtype = str(register.ty.dtype)
        copy = lanes.lanes(dtype, one) if vector else unrolled("v", width, one)
        put = unrolled(
            "v", width, lambda v: store(staged.tile, load(register, i, v), line, first + v)
        )
        put = padded(staged.tile, self.repeated(times, i, when(inside, put)))
        return seq([self.repeated(times, i, when(inside, copy)), put])

    def repeated(self, times: int, i: Any, body: Any) -> Any:
        return unrolled("i", times, lambda k: substitute(body, values((i, k))))

    def inside(self, a: Any, b: Any) -> Any | None:
        conditions = []
        if self.reads % self.a:
            conditions.append(a < number(self.reads))
        if self.writes % self.b:
            conditions.append(b < number(self.writes))
        if len(conditions) == 2:
            return tirx.And(*conditions)
        return conditions[0] if conditions else None

    def write(
        self, width: int, threads: int, thread: Any, other: Any,
        start_a: Any, start_b: Any, analyzer: Any,
    ) -> Any:  # fmt: skip
        lane, i = tirx.Var("v", "int64"), tirx.Var("i", "int64")
        across = self.b // width
        times = self.a * across // threads
        analyzer.bind(lane, static_range(width))
        analyzer.bind(i, static_range(times))
        first, line = _place(thread, i, width, across, threads)
        a, b = start_a + line, start_b + first
        at = self.at(other, a, b + lane)
        at[self.along_read], at[self.along_write] = line, first + lane
        lanes = VectorLanes(lane, width, analyzer)
        binds = [tirx.Bind(var, self.put(e, at, lanes, analyzer)) for var, e in self.lets]
        value = self.put(self.value, at, lanes, analyzer)
        indices = [analyzer.simplify(substitute(e, at)) for e in self.update.indices]
        out = local(f"{self.update.buffer.name}_out", [width], str(self.update.buffer.ty.dtype))
        self.buffers += [out, *lanes.registers]
        body = seq([*binds, store(out, value, lane)])
        vector = contiguous(self.update.buffer, indices, lane, width, analyzer)

        def one(v: Any) -> Any:
            return store(self.update.buffer, load(out, v),
                         *(substitute(e, values((lane, v))) for e in indices))  # fmt: skip

        dtype = str(out.ty.dtype)
        stored = lanes.lanes(dtype, one) if vector else unrolled("v", width, one)
        each = unrolled("u", width, lambda v: substitute(body, values((lane, v))))
        whole = when(self.inside(a, b), seq([*lanes.statements(), each, stored]))
        return self.repeated(times, i, whole)

    def put(self, expr: Any, at: Values, lanes: VectorLanes, analyzer: Any) -> Any:
        """A part of the value, with tiles in place of staged loads."""

        def tiled(node: Any, mutator: Any) -> Any:
            for staged in self.staged:
                if tvm_ffi.structural_equal(staged.access, node):
                    return load(staged.tile, self.along_write, self.along_read)
            return mutator.default_mutate(node)

        expr = tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, tiled)])
        return lanes(simplified(substitute(expr, at), analyzer))


def _power(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()
