"""Elements that depend on no others: each thread computes one vector.

    for i, j: y[i, j] = f(x[i, j], b[j])
    blockIdx.x, threadIdx.x over vectors of y: 16 bytes of x and b into registers, 16 bytes out

A thread has several vectors where they share operands, as `shared_operands` says.

Reductions of few terms, as in pooling and depthwise convolutions, run inside of the thread:

    for h, w, c; r, s: y[h, w, c] = max(y[h, w, c], x[2 * h + r, 2 * w + s, c])
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import tvm
from tvm import tirx

from .....analysis.blocks.loop_steps import LoopStep
from .....analysis.blocks.tir import Values, seq, static, values
from .....analysis.lifting.tir.node import NodeDict, as_dtype, substitute
from .accumulators import accumulators, widened
from .aligned_steps import AlignedSteps
from .program.combiners import combinations
from .program.gpu_program import GpuProgram, expanded, extents, is_coupled, product
from .program.merged_axes import MergedAxes, axis_range, positions_in, simplified, static_range
from .program.thread_loops import (
    BLOCK,
    THREAD,
    in_turns,
    load,
    local,
    number,
    store,
    stored_together,
    thread_loop,
    unrolled,
    when,
)
from .program.vector_loads import VectorLanes
from .shared_operands import sharing

THREADS = 256
#: Terms of a reduction that a thread unrolls, and that it computes at all.
FEW, MANY = 16, 64
#: The most of the others that it unrolls, so that their loads do not wait for one another.
TURNS = 8


def pointwise(program: GpuProgram, most: int = MANY) -> tuple[Any, list[Any]]:
    """Return the kernel of steps over the same axes, and its buffers.

    ``most`` is the number of terms of a reduction that a thread may compute.

    Raises:
        NoGpuSchedule: The steps are over different axes, or reduce many terms.
    """
    return Points(program, most).kernel()


class Points(AlignedSteps):
    """A thread computes a vector of results of steps over the same axes."""

    def __init__(self, program: GpuProgram, most: int) -> None:
        super().__init__(program, most)
        self.buffers: list[Any] = []
        self.repeated, self.times = 0, 1
        self.sums: NodeDict[Any] = NodeDict()  # the registers of reductions

    def kernel(self) -> tuple[Any, list[Any]]:
        groups = self.merged()
        width = self.width(groups)
        self.repeated, self.times = sharing(self, groups, groups.total // width)
        return self.launch(groups, width)

    def launch(self, groups: MergedAxes, width: int) -> tuple[Any, list[Any]]:
        """A thread for each vector of ``width`` along the groups."""
        vectors = groups.total // width // self.times
        threads = min(THREADS, -(-vectors // 32) * 32)
        blocks = -(-vectors // threads)
        nest = thread_loop(BLOCK, blocks, lambda block: thread_loop(THREAD, threads, lambda thread:
            self.guarded(groups, width, vectors, block, blocks, thread, threads)))  # fmt: skip
        return nest, self.buffers

    def guarded(
        self, groups: MergedAxes, width: int, vectors: int,
        block: Any, blocks: int, thread: Any, threads: int,
    ) -> Any:  # fmt: skip
        place = block * number(threads) + thread
        analyzer = tvm.sym.Analyzer()
        analyzer.bind(block, static_range(blocks))
        analyzer.bind(thread, static_range(threads))
        exact = blocks * threads == vectors
        condition = None if exact else place < number(vectors)
        if exact:
            return self.body(groups, width, place, analyzer)
        with analyzer.constraint_scope(condition):
            return when(condition, self.body(groups, width, place, analyzer))

    def body(self, groups: MergedAxes, width: int, place: Any, analyzer: Any) -> Any:
        lane, turn = (tirx.Var(name, str(place.ty.dtype)) for name in ("v", "i"))
        analyzer.bind(lane, static_range(width))
        analyzer.bind(turn, static_range(self.times))
        sizes = groups.sizes
        if self.times > 1:
            sizes[self.repeated] //= self.times
        sizes[-1:] = [size // width for size in sizes[-1:]]
        positions = positions_in(sizes, place)
        if self.times > 1:
            positions[self.repeated] = positions[self.repeated] * number(self.times) + turn
        body = self.vector(groups.at(positions, width, lane), lane, width, analyzer)
        return unrolled("i", self.times, lambda i: substitute(body, values((turn, i))))

    def vector(self, at: Values, lane: Any, width: int, analyzer: Any) -> Any:
        """The statements for a vector of results."""
        out: list[Any] = []
        for step in self.steps:
            pairs = zip(step.spatial, self.axes, strict=True)
            where = values(*((a.var, at[b.var]) for a, b in pairs))
            if step.reduced:
                out += self.reduction(step, where, lane, width, analyzer)
            if any(u.buffer in self.program.params for u in step.updates):
                out += self.results(step, where, lane, width, analyzer)
        return seq(out)

    def results(
        self, step: LoopStep, at: Values, lane: Any, width: int, analyzer: Any
    ) -> list[Any]:
        lanes = self.lanes(lane, width, analyzer)
        inner, after = [], []
        for update in step.updates:
            if update.buffer not in self.program.params:
                continue
            lets: list[Any] = []
            value = self.sum_at(self.sums[update.buffer], lane) if step.reduced else None
            if not step.reduced:
                lets, value = self.value(update.value, at, lanes, analyzer)
            indices = [analyzer.simplify(substitute(i, at)) for i in update.indices]
            if width == 1:
                inner += [*lets, store(update.buffer, value, *indices)]
                continue
            register = self.register(f"{update.buffer.name}_out", width, update.buffer)
            inner += [*lets, store(register, value, lane)]
            after.append(_stored(lanes, update.buffer, indices, register, lane))
        body = seq(inner)
        self.buffers += lanes.registers
        lane0 = unrolled("u", width, lambda v: substitute(body, values((lane, v))))
        return [*lanes.statements(), lane0, *after]

    def reduction(
        self, step: LoopStep, at: Values, lane: Any, width: int, analyzer: Any
    ) -> list[Any]:
        """Accumulate in registers, one for each lane."""
        terms = extents(step.reduced)
        loops = [tirx.Var(a.var.name, str(a.var.ty.dtype)) for a in step.reduced]
        where = Values()
        for var, value in at.items():
            where[var] = value
        for var, axis in zip(loops, step.reduced, strict=True):
            analyzer.bind(var, axis_range(axis))
            where[axis.var] = number(0) if static(axis.extent) == 1 else var
        lanes = self.lanes(lane, width, analyzer)
        out = []
        for update, start, dtype in accumulators(step):
            register = local(f"{update.buffer.name}_acc", [width], dtype)
            self.buffers.append(register)
            self.sums[update.buffer] = register
            init = substitute(start, at)
            out.append(unrolled("u", width, partial(_started, register, init, lane)))
        order = list(zip(loops, terms, strict=True))
        inner = self.accumulated(step, where, order, lanes, lane, analyzer)
        self.buffers += lanes.registers
        each = unrolled("u", width, lambda v: substitute(seq(inner), values((lane, v))))
        body = seq([*lanes.statements(), each])
        few = product(terms) <= FEW
        for k, (var, extent) in reversed(list(enumerate(order))):
            most = extent if few else TURNS if k == len(order) - 1 else 1
            body = in_turns(var, extent, most, body)
        return [*out, body]

    def accumulated(
        self, step: LoopStep, at: Values, order: Sequence[tuple[Any, int]], lanes: VectorLanes,
        lane: Any, analyzer: Any,
    ) -> list[Any]:  # fmt: skip
        """The statements that add a term in a lane; ``order``: the loops over terms."""
        out: list[Any] = []
        if not is_coupled(step):
            for update in step.updates:
                register = self.sums[update.buffer]
                lets, value = self.value(widened(update, register), at, lanes, analyzer)
                out += [*lets, store(register, value, lane)]
            return out
        for combine in combinations(step):
            registers, terms = [self.sums[u.buffer] for u in combine.updates], []
            for expr in combine.terms:
                lets, term = self.value(expr, at, lanes, analyzer)
                out += lets
                terms.append(term)
            thread = combine.in_order(order, terms[0], analyzer)
            out += stored_together(registers, thread([load(r, lane) for r in registers], terms),
                                   lane)  # fmt: skip
        return out

    def value(
        self, value: Any, at: Values, lanes: VectorLanes, analyzer: Any
    ) -> tuple[list[Any], Any]:
        lets, value = expanded(value, self.program.definitions)
        binds = [tirx.Bind(var, lanes(simplified(substitute(bound_to, at), analyzer)))
                 for var, bound_to in lets]  # fmt: skip
        return binds, lanes(simplified(substitute(value, at), analyzer))

    def sum_at(self, register: Any, lane: Any) -> Any:
        """A result of a reduction."""
        return load(register, lane)

    def lanes(self, lane: Any, width: int, analyzer: Any) -> VectorLanes:
        def cached(expr: Any) -> Any | None:
            register = self.sums.get(expr.source)
            if register is None and any(expr.source.same_as(r) for _, r in self.sums.items()):
                return load(expr.source, lane)
            if register is None:
                return None
            return as_dtype(self.sum_at(register, lane), str(expr.ty.dtype))

        return VectorLanes(lane, width, analyzer, cached)

    def register(self, name: str, width: int, like: Any) -> Any:
        buffer = local(name, [width], str(like.ty.dtype))
        self.buffers.append(buffer)
        return buffer


def _started(register: Any, init: Any, lane: Any, v: Any) -> Any:
    return store(register, substitute(init, values((lane, v))), v)


def _stored(lanes: VectorLanes, buffer: Any, indices: list[Any], register: Any, lane: Any) -> Any:
    def one(v: Any) -> Any:
        return store(
            buffer, load(register, v), *(substitute(i, values((lane, v))) for i in indices)
        )

    return lanes.lanes(str(buffer.ty.dtype), one)
