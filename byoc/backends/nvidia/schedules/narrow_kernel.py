"""Few channels become the innermost axis: a thread reads a vector of each, and writes them joined.

for p, c: y[p, c] = x[c, p]                3 channels of an image

x_reg[c, v] = x[c, 8 * t + v]              a vector for each c
y_out[3 * v + c] = x_reg[c, v]
y_block[t, …] = y_out[…]                   shared memory
y[…] = y_block[…]                          neighbouring threads store neighbouring vectors

Conditions on the channel, as of a pad from 3 to 4, are decided for each.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import Values, is_guard, loads, seq, static, values
from .....analysis.lifting.tir.node import items, substitute
from .program.gpu_program import GpuProgram, NoGpuSchedule, itemsize, unguarded
from .program.merged_axes import bound, simplified, static_range
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
from .program.vector_loads import VectorLanes, contiguous, widest
from .transpose_kernel import SingleStep

#: Threads of a block, and the longest innermost axis.
THREADS, NARROW = 128, 8


def narrow(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of one step whose innermost axis is short and not the one it reads along.

    Raises:
        NoGpuSchedule: It is not such a step.
    """
    return _Narrow(program)()


class _Narrow(SingleStep):
    """Emits the kernel of a single step that joins few channels."""

    def __init__(self, program: GpuProgram) -> None:
        super().__init__(program)
        self.read_group, accesses = self.find(guarded=True)
        self.reads, self.writes = self.groups.sizes[self.read_group], self.groups.sizes[-1]
        if self.writes > NARROW or self.read_group != len(self.groups.sizes) - 2:
            raise NoGpuSchedule("the innermost axis is not short")
        self.width = min(widest(itemsize(e.source), self.reads) for e in accesses)
        self.check_store()
        self.buffers: list[Any] = []
        self.size = self.width * self.writes

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
        out = local(f"{self.update.buffer.name}_out", [self.size],
                    str(self.update.buffer.ty.dtype))  # fmt: skip
        self.buffers.append(out)
        put, copies = self.together(out, block, thread, blocks, vectors, analyzer)
        phases = [when(inside, seq([*self.body(out, place, analyzer), put])), copies]

        def over(body: Any, b: Any) -> Any:
            return thread_loop(THREAD, THREADS, lambda t: substitute(
                body, values((block, b), (thread, t))))  # fmt: skip

        nest = thread_loop(BLOCK, blocks, lambda b: seq([over(p, b) for p in phases]))
        return nest, self.buffers

    def together(
        self, out: Any, block: Any, thread: Any, blocks: int, vectors: int, analyzer: Any
    ) -> tuple[Any, Any]:
        """The statements that put a thread's results into shared memory, and store a block's.

        A vector is as wide as it can be, or a pixel if its channels are a power of two: of a lane
        that runs over such pixels, TVM would vectorise quotients and remainders in 64 bits, of
        which CUDA has no vectors of 8. Only ``part`` and the lane are in quotients, so that TVM
        simplifies them.
        """
        power = self.writes & (self.writes - 1) == 0
        each = self.writes if power else widest(itemsize(out), self.size)
        dtype, count = str(out.ty.dtype), self.size // each
        h, row, part, lane = (tirx.Var(n, "int64") for n in ("h", "row", "part", "v"))
        for var, extent in ((row, THREADS), (part, count), (lane, each)):
            analyzer.bind(var, static_range(extent))
        element = part * number(each) + lane
        pixel, channel = (part, lane) if power else (
            element // number(self.writes), element % number(self.writes))  # fmt: skip
        at = self.at(block * number(THREADS) + row, pixel, channel)
        indices = [analyzer.simplify(substitute(i, at)) for i in self.update.indices]
        stage = local(f"{self.update.buffer.name}_block", [THREADS, self.size], dtype, "shared")
        self.buffers.append(stage)
        lanes = VectorLanes(tirx.Var("e", "int64"), self.size, analyzer)
        put = lanes.lanes(dtype, lambda e: store(stage, load(out, e), thread, e))
        put = padded(stage, put, widest(itemsize(out), self.size))
        copy = VectorLanes(lane, each, analyzer).lanes(dtype, lambda v: store(
            self.update.buffer, load(stage, row, part * number(each) + v),
            *(substitute(i, values((lane, v))) for i in indices)))  # fmt: skip
        inside = None if blocks * THREADS == vectors else (
            block * number(THREADS) + row < number(vectors))  # fmt: skip
        vector = h * number(THREADS) + thread
        copy = substitute(when(inside, copy), values(
            (row, vector // number(count)), (part, vector % number(count))))  # fmt: skip
        return put, self.each(count, h, copy)

    def at(self, place: Any, lane: Any, channel: Any) -> Values:
        each = self.reads // self.width
        positions = self.others(place // number(each))
        a = place % number(each) * number(self.width) + lane
        return self.axes_at([*positions, a, channel])

    def body(self, out: Any, place: Any, analyzer: Any) -> list[Any]:
        """The statements that compute a thread's results in registers."""
        lane = tirx.Var("v", "int64")
        analyzer.bind(lane, static_range(self.width))
        reading, computing = [], []
        for channel in range(self.writes):
            copies, values_of = self.channel(place, lane, channel, out, analyzer)
            reading += copies
            computing.append(self.each(self.width, lane, values_of))
        return [*reading, *computing]

    def channel(
        self, place: Any, lane: Any, channel: int, out: Any, analyzer: Any
    ) -> tuple[list[Any], Any]:
        """The statements that read a channel's vectors, and those that compute its results."""
        at = self.at(place, lane, number(channel))
        copies: list[Any] = []
        registers: list[tuple[Any, Any]] = []

        def put(expr: Any) -> Any:
            expr = with_decided_guards(simplified(substitute(expr, at), analyzer), analyzer)
            for access in unguarded(expr):
                self.register(access, lane, copies, registers, analyzer)
            if len(unguarded(expr)) != len(loads(expr)):
                raise NoGpuSchedule("a condition depends on more than the innermost axis")
            return replaced(expr, registers)

        names = [
            (var, tirx.Var(f"{var.name}_{channel}", str(var.ty.dtype))) for var, _ in self.lets
        ]
        renamed = values(*names)
        binds = [tirx.Bind(new, substitute(put(e), renamed))
                 for (_, new), (_, e) in zip(names, self.lets, strict=True)]  # fmt: skip
        result = substitute(put(self.value), renamed)
        place_of = lane * number(self.writes) + number(channel)
        return copies, seq([*binds, store(out, result, place_of)])

    def register(
        self, access: Any, lane: Any, copies: list[Any], registers: list[tuple[Any, Any]],
        analyzer: Any,
    ) -> None:  # fmt: skip
        """Read a vector into a register, if the lanes of a load are neighbours."""
        strides = strided_access(access.source, items(access.indices), [lane], analyzer)
        if strides.step(lane) != 1 or any(
            tvm_ffi.structural_equal(access, known) for known, _ in registers
        ):
            return
        register = local(f"{access.source.name}_reg", [self.width], str(access.source.ty.dtype))
        self.buffers.append(register)
        registers.append((access, load(register, lane)))

        def one(v: Any) -> Any:
            return store(register, substitute(access, values((lane, v))), v)

        if contiguous(access.source, items(access.indices), lane, self.width, analyzer):
            copies.append(
                VectorLanes(lane, self.width, analyzer).lanes(str(register.ty.dtype), one)
            )
        else:
            copies.append(unrolled("v", self.width, one))

    def each(self, extent: int, var: Any, body: Any) -> Any:
        return unrolled("u", extent, lambda v: substitute(body, values((var, v))))


def with_decided_guards(expr: Any, analyzer: Any) -> Any:
    """The expression without branches whose condition is known."""

    def call(node: Any, mutator: Any) -> Any:
        if not is_guard(node):
            return mutator.default_mutate(node)
        condition, yes, no = items(node.args)
        known = static(analyzer.simplify(condition))
        if known is None:
            return mutator.default_mutate(node)
        return mutator.mutate(yes if known else no)

    return tvm_ffi.structural_mutate(expr, [(tvm.ir.Call, call)])


def replaced(expr: Any, registers: list[tuple[Any, Any]]) -> Any:
    """The expression with registers for the loads that they hold."""

    def known(node: Any, mutator: Any) -> Any:
        for access, value in registers:
            if tvm_ffi.structural_equal(access, node):
                return value
        return mutator.default_mutate(node)

    return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, known)])
