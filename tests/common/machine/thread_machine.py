"""A machine for TIR with threads, vectors and views, independent of the library.

All threads of a kernel execute a statement before any of them executes the next, as numpy arrays
over the threads; which is right for programs whose threads are separated by barriers or share
nothing. It raises if threads conflict: two store different values to one element in one statement,
or one loads from global memory what another stored in the same kernel.
As TVM's runtime does, it launches one block where a kernel has none.
A block that reduces over threads is executed one thread after another, and all get the result.
Parallel loops run forwards or backwards. Shared memory is one for each block of threads, local
memory one for each thread; reading what was never written raises, as does leaving a buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.support.tvm_compat import source_of

from ..interpret import Undefined
from . import tensor_cores
from .expression_values import ExpressionValues
from .kernel_memory import Buffer, Memory, row_major
from .kernel_statements import (
    bound_threads,
    follows_threads,
    lanes_of_store,
    stored_buffers,
    thread_tag,
)

Array = npt.NDArray[Any]
VECTORIZED, PARALLEL, REDUCE = 2, 1, 2


def execute(
    func: Any, inputs: list[Array], sizes: dict[str, int] | None = None, backwards: bool = False
) -> list[Array]:
    """The output buffers: the trailing parameters after ``inputs``.

    Floating-point outputs are in double precision. Raises `interpret.Undefined`.
    """
    return _Machine(func, inputs, sizes or {}, backwards).outputs


class _Machine(ExpressionValues):
    """Runs statements; memory is kept from one to the next."""

    def __init__(self, func: Any, inputs: list[Array], sizes: dict[str, int], back: bool) -> None:
        self.env: dict[Any, Any] = {}
        self.buffers: dict[Any, Buffer] = {}
        self.back, self.count, self.at = back, 1, dict[str, Array]()
        self.one = np.zeros(1, np.int64)
        self.lane: int | None = None
        self.blocks, self.block = 1, self.one  # of threads
        self.memories: list[Memory] = []
        buffers = [p for p in func.params if is_buffer_var(p)]
        given = dict(zip(buffers, inputs, strict=False))
        for p in func.params:
            if not is_buffer_var(p):
                self.env[p] = sizes[p.name]
        for p in buffers:
            shape = given[p].shape if p in given else ()
            assert p not in given or len(shape) == len(p.ty.shape), "an input of another rank"
            for d, e in enumerate(p.ty.shape):
                if type(e).__name__ == "Var" and e not in self.env:
                    self.env[e] = shape[d] if shape else sizes[e.name]
        outputs = []
        for p in buffers:
            made = self.allocate(p, "global")
            if p in given:
                assert given[p].shape == made.shape, "an input of another shape"
                made.memory.values[:] = np.asarray(given[p]).reshape(1, -1)
                made.memory.written[:] = True
            else:
                outputs.append(made)
        self.run(func.body, np.ones(1, bool))
        self.outputs = [b.memory.values.reshape(b.shape) for b in outputs]

    # ------------------------------------------------------------------ memory

    def allocate(self, b: Any, scope: str = "") -> Buffer:
        shape = tuple(self.number(e) for e in b.ty.shape)
        scope = scope or str(b.ty.storage_scope) or "global"
        memory = Memory(int(np.prod(shape)), str(b.ty.dtype), scope)
        self.memories.append(memory)
        self.give(memory)
        strides = tuple(self.number(s) for s in b.ty.strides) or row_major(shape)
        self.buffers[b] = Buffer(memory, shape, strides)
        return self.buffers[b]

    def give(self, memory: Memory) -> None:
        if memory.scope.startswith("shared"):
            memory.give(self.block, self.blocks)
        elif memory.scope.startswith(("local", "wmma")):
            memory.give(np.arange(self.count), self.count)
        else:
            memory.give(np.zeros(self.count, np.int64), 1)

    def number(self, e: Any) -> int:
        """A value that is the same for all threads."""
        values = np.unique(np.asarray(self.value(e, np.ones(self.count, bool))))
        assert len(values) == 1, "threads differ in an extent"
        return int(values[0])

    def place(self, b: Any, index: list[Any], mask: Array) -> tuple[Buffer, Array, Array]:
        """The row and the position of an element, of the threads that run."""
        found = self.buffers[b]
        position = np.broadcast_to(np.asarray(found.start), (self.count,))
        for i, extent, stride in zip(index, found.shape, found.strides, strict=True):
            i = np.broadcast_to(np.asarray(i), (self.count,))
            if np.any((i[mask] < 0) | (i[mask] >= extent)):
                raise Undefined("an access outside a buffer")
            position = position + i * stride
        owner = found.memory.owner
        row = owner if len(owner) == self.count else np.zeros(self.count, np.int64)
        return found, row[mask], position[mask]

    def load(self, b: Any, index: list[Any], mask: Array) -> Any:
        found, row, at = self.place(b, index, mask)
        memory = found.memory
        if not memory.written[row, at].all():
            raise Undefined("read of an element that was not written")
        if memory.last is not None:
            writer = memory.last[row, at]
            if np.any((writer >= 0) & (writer != np.arange(self.count)[mask])):
                raise Undefined("a thread reads what another one stores")
        out = np.zeros(self.count, memory.values.dtype)
        out[mask] = memory.values[row, at]
        return out

    def store(self, b: Any, index: list[Any], value: Any, mask: Array) -> None:
        found, row, at = self.place(b, index, mask)
        memory = found.memory
        value = np.broadcast_to(np.asarray(value), (self.count,))[mask]
        memory.values[row, at] = value
        memory.written[row, at] = True
        if not np.array_equal(memory.values[row, at], value.astype(memory.values.dtype), True):
            raise Undefined("threads store different values into one element")
        if memory.last is not None:
            memory.last[row, at] = np.arange(self.count)[mask]

    # ------------------------------------------------------------------ statements

    def run(self, s: Any, mask: Array) -> None:
        if mask.any():
            getattr(self, f"run_{type(s).__name__}")(s, mask)

    def run_SeqStmt(self, s: Any, mask: Array) -> None:
        for part in s.seq:
            self.run(part, mask)

    def run_For(self, s: Any, mask: Array) -> None:
        if thread_tag(s):
            return self.thread(s, s.loop_var, thread_tag(s), self.value(s.min, mask), mask)
        start, extent = self.value(s.min, mask), np.asarray(self.value(s.extent, mask))
        most = int(extent.max()) if extent.ndim == 0 else int(extent[mask].max(initial=0))
        steps = range(most)
        for k in reversed(steps) if self.back and int(s.kind) == PARALLEL else steps:
            self.env[s.loop_var] = start + k
            self.run(s.body, mask & (k < extent))
        return None

    def run_AttrStmt(self, s: Any, mask: Array) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread"):
            tag = thread_tag(s) or str(s.node.var.name)
            return self.thread(s, s.node.var, tag, 0, mask)
        return self.run(s.body, mask)

    def thread(self, s: Any, v: Any, tag: str, start: Any, mask: Array) -> None:
        if tag in self.at:
            self.env[v] = start + self.at[tag]
            return self.run(s.body, mask)
        assert not self.at, f"{tag} is bound inside only"
        extents = {t: max(1, self.number(e)) for t, e in bound_threads(s)}
        self.count = int(np.prod(list(extents.values())))
        grid = np.unravel_index(np.arange(self.count), tuple(extents.values()))
        self.at = dict(zip(extents, grid, strict=True))
        blocks = [t for t in extents if t.startswith("blockIdx")]
        self.blocks = int(np.prod([extents[t] for t in blocks]))
        self.block = np.zeros(self.count, np.int64)
        for t in blocks:
            self.block = self.block * extents[t] + self.at[t]
        for m in self.memories:
            if m.scope == "global":
                m.last = np.full(m.values.shape, -1)
            else:
                self.give(m)
        self.thread(s, v, tag, start, np.ones(self.count, bool))
        for m in self.memories:
            m.last = None
        self.count, self.at, self.blocks, self.block = 1, {}, 1, self.one
        return None

    def run_SBlockRealize(self, s: Any, mask: Array) -> None:
        block, first, over = s.block, np.ones(self.count, bool), list[Any]()
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.env[iv.var] = self.value(value, mask)
            if int(iv.iter_type) == REDUCE:
                first = first & (self.env[iv.var] == self.value(iv.dom.min, mask))
                over.append(self.env[iv.var])
        for b in block.alloc_buffers:
            self.allocate(b)
        for m in block.match_buffers:
            self.match(m.buffer, m.source)
        mask = mask & np.asarray(self.value(s.predicate, mask), bool)
        if block.init is not None and self.at and any(map(self.varies, over)):
            return self.combine(block, over, first, mask)
        if block.init is not None:
            self.run(block.init, mask & first)
        return self.run(block.body, mask)

    def varies(self, value: Any) -> bool:
        return np.ndim(value) > 0 and bool(np.any(value != value[0]))

    def combine(self, block: Any, over: list[Any], first: Array, mask: Array) -> None:
        """A reduction over threads: those of a group one after another, in memory of the first.

        Groups share nothing but what is the same in all, so their threads take turns together.
        """
        tags = [
            t for t, at in self.at.items() if any(follows_threads(v, at, self.at) for v in over)
        ]
        leads = np.zeros(self.count, np.int64)
        for t, at in self.at.items():
            if t not in tags:
                leads = leads * (int(at.max()) + 1) + at
        _, lead, group = np.unique(leads, return_index=True, return_inverse=True)
        lead = lead[group]
        local = [
            b for b in stored_buffers(block) if len(self.buffers[b].memory.values) == self.count > 1
        ]
        watched, kept = [m.last for m in self.memories], [self.buffers[b].memory for b in local]
        for m in self.memories:
            m.last = None
        for memory in kept:
            memory.owner = lead
        order = np.argsort(lead, kind="stable")
        turn = np.empty(self.count, np.int64)
        turn[order] = np.arange(self.count) - np.searchsorted(lead[order], lead[order])
        for own in (turn == t for t in range(int(turn.max()) + 1)):
            self.run(block.init, own & mask & first)
            self.run(block.body, own & mask)
        for memory in kept:
            memory.owner = np.arange(self.count)
            memory.values, memory.written = memory.values[lead], memory.written[lead]
        for m, last in zip(self.memories, watched, strict=True):
            m.last = last

    def match(self, b: Any, region: Any) -> None:
        source = self.buffers[source_of(region)]
        ones = np.ones(self.count, bool)
        start = source.start
        for r, stride in zip(region.region, source.strides, strict=True):
            start = start + np.asarray(self.value(r.min, ones)) * stride
        shape = tuple(self.number(r.extent) for r in region.region)
        cut = len(shape) - len(b.ty.shape)
        made = Buffer(source.memory, shape[cut:], source.strides[cut:], start)
        for e, value in (*zip(b.ty.strides, made.strides, strict=False), (b.ty.elem_offset, start)):
            if type(e).__name__ == "Var":
                self.env[e] = value
        self.buffers[b] = made

    def run_DeclBuffer(self, s: Any, mask: Array) -> None:
        data = s.data.args[0] if hasattr(s.data, "args") else s.data
        shape = tuple(self.number(e) for e in s.buffer.ty.shape)
        strides = tuple(self.number(e) for e in s.buffer.ty.strides) or row_major(shape)
        start = self.value(s.buffer.ty.elem_offset, mask)
        self.buffers[s.buffer] = Buffer(self.buffers[data].memory, shape, strides, start)

    def run_BufferStore(self, s: Any, mask: Array) -> None:
        lanes = lanes_of_store(s)
        done = []
        for lane in range(lanes):
            self.lane = lane if lanes > 1 else None
            index = [self.value(i, mask) for i in s.indices]
            done.append((index, self.value(s.value, mask)))
        self.lane = None
        for index, value in done:
            self.store(s.buffer, index, value, mask)

    def run_IfThenElse(self, s: Any, mask: Array) -> None:
        condition = np.broadcast_to(np.asarray(self.value(s.condition, mask), bool), (self.count,))
        self.run(s.then_case, mask & condition)
        if s.else_case is not None:
            self.run(s.else_case, mask & ~condition)

    def run_AllocBuffer(self, s: Any, mask: Array) -> None:
        self.allocate(s.buffer)

    def run_Bind(self, s: Any, mask: Array) -> None:
        self.env[s.var] = self.value(s.value, mask)

    def run_Evaluate(self, s: Any, mask: Array) -> None:
        if tensor_cores.run(self, s.value, mask):
            return
        name = str(getattr(getattr(s.value, "op", None), "name", ""))
        assert type(s.value).__name__ == "IntImm" or name in (
            "tirx.tvm_storage_sync",
            "tirx.assume",
        )
