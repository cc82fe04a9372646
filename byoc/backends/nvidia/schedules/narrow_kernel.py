"""Few channels become the innermost axis: a thread reads a vector of each, and writes them joined.

for p, c: y[p, c] = x[c, p]                3 channels of an image

x_reg[c, v] = x[c, 8 * t + v]              a vector for each c
y_out[3 * v + c] = x_reg[c, v]
y[8 * t …, …] = y_out[…]                   three vectors
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import Values, seq, values
from .....analysis.lifting.tir.node import items, substitute
from .gpu_program import GpuProgram, NoGpuSchedule, itemsize
from .merged_axes import bound, simplified, static_range
from .thread_loops import BLOCK, THREAD, load, local, number, store, thread_loop, unrolled, when
from .transpose_kernel import SingleStep
from .vector_loads import VectorLanes, contiguous, widest

#: Threads of a block, and the longest innermost axis.
THREADS, NARROW = 128, 8


def narrow(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of one step whose innermost axis is short and not the one it reads along.

    Raises:
        NoGpuSchedule: It is not such a step.
    """
    return _Narrow(program)()


class _Narrow(SingleStep):
    def __init__(self, program: GpuProgram) -> None:
        super().__init__(program)
        self.read_group, self.accesses = self.find()
        self.reads, self.writes = self.groups.sizes[self.read_group], self.groups.sizes[-1]
        if self.writes > NARROW or self.read_group != len(self.groups.sizes) - 2:
            raise NoGpuSchedule("the innermost axis is not short")
        self.width = min(widest(itemsize(e.source), self.reads) for e in self.accesses)
        self.check_store()
        self.buffers: list[Any] = []

    def check_store(self) -> None:
        """The results of a thread are consecutive."""
        inner = [self.groups.groups[k][-1].var for k in (-2, -1)]
        access = strided_access(self.update.buffer, self.update.indices, inner, bound(self.axes))
        if [access.step(v) for v in inner] != [self.writes, 1]:
            raise NoGpuSchedule("results are not consecutive")

    def __call__(self) -> tuple[Any, list[Any]]:
        vectors = self.groups.total // self.writes // self.width
        blocks = -(-vectors // THREADS)
        block, thread = tirx.Var("block", "int64"), tirx.Var("thread", "int64")
        analyzer = tvm.sym.Analyzer()
        analyzer.bind(block, static_range(blocks))
        analyzer.bind(thread, static_range(THREADS))
        place = block * number(THREADS) + thread
        inside = None if blocks * THREADS == vectors else place < number(vectors)
        body = when(inside, self.body(place, analyzer))

        def threads(b: Any) -> Any:
            return thread_loop(THREAD, THREADS, lambda t: substitute(
                body, values((block, b), (thread, t))))  # fmt: skip

        nest = thread_loop(BLOCK, blocks, threads)
        return nest, self.buffers

    def at(self, place: Any, lane: Any, channel: Any) -> Values:
        each = self.reads // self.width
        positions = self.others(place // number(each))
        a = place % number(each) * number(self.width) + lane
        return self.axes_at([*positions, a, channel])

    def body(self, place: Any, analyzer: Any) -> Any:
        lane, channel = tirx.Var("v", "int64"), tirx.Var("b", "int64")
        analyzer.bind(lane, static_range(self.width))
        analyzer.bind(channel, static_range(self.writes))
        at = self.at(place, lane, channel)
        out = local(f"{self.update.buffer.name}_out", [self.width * self.writes],
                    str(self.update.buffer.ty.dtype))  # fmt: skip
        self.buffers.append(out)
        reading, registers = [], []
        for expr in self.accesses:
            access = simplified(substitute(expr, at), analyzer)
            register = local(f"{expr.source.name}_reg", [self.writes, self.width],
                             str(expr.source.ty.dtype))  # fmt: skip
            self.buffers.append(register)
            registers.append((expr, load(register, channel, lane)))
            copy = self.copy(access, register, channel, lane, analyzer)
            reading.append(self.each(self.writes, channel, copy))
        value = [tirx.Bind(var, self.put(e, at, registers, analyzer)) for var, e in self.lets]
        result = self.put(self.value, at, registers, analyzer)
        value.append(store(out, result, lane * number(self.writes) + channel))
        computing = self.each(self.width, lane, self.each(self.writes, channel, seq(value)))
        return seq([*reading, computing, self.written(out, place, analyzer)])

    def copy(self, access: Any, register: Any, channel: Any, lane: Any, analyzer: Any) -> Any:
        def one(v: Any) -> Any:
            return store(register, substitute(access, values((lane, v))), channel, v)

        if contiguous(access.source, items(access.indices), lane, self.width, analyzer):
            return VectorLanes(lane, self.width, analyzer).lanes(str(register.ty.dtype), one)
        return unrolled("v", self.width, one)

    def each(self, extent: int, var: Any, body: Any) -> Any:
        return unrolled("u", extent, lambda v: substitute(body, values((var, v))))

    def written(self, out: Any, place: Any, analyzer: Any) -> Any:
        size = self.width * self.writes

        def one(e: Any) -> Any:
            at = self.at(place, e // number(self.writes), e % number(self.writes))
            indices = [analyzer.simplify(substitute(i, at)) for i in self.update.indices]
            return store(self.update.buffer, load(out, e), *indices)

        lane = tirx.Var("e", "int64")
        return VectorLanes(lane, size, analyzer).lanes(str(out.ty.dtype), one)

    def put(self, expr: Any, at: Values, registers: list[tuple[Any, Any]], analyzer: Any) -> Any:
        def known(node: Any, mutator: Any) -> Any:
            for access, value in registers:
                if tvm_ffi.structural_equal(access, node):
                    return value
            return mutator.default_mutate(node)

        expr = tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, known)])
        return simplified(substitute(expr, at), analyzer)
