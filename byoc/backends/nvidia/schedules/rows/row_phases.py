"""The phases of a kernel in which threads share a row: what each thread does for a step.

s_acc[0] += x_reg[c, v];  s_row[0] = sum of s_acc[0] over threadIdx.x      a reduction
y[i, …] = x_reg[c, v] / s_row[0]                                           any other step
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from ......analysis.blocks.tir import Values, seq, values
from ......analysis.lifting.tir.node import substitute
from ..program.combiners import combinations
from ..program.gpu_program import expanded
from ..program.merged_axes import MergedAxes, positions_of, simplified
from ..program.row_space import RowStep, substituted
from ..program.thread_loops import (
    THREAD,
    in_turns,
    load,
    local,
    number,
    reduce_threads,
    store,
    stored_together,
    unrolled,
    when,
)
from ..program.vector_loads import VectorLanes, contiguous
from .row_registers import CHUNKS, RowRegisters


class RowPhases(RowRegisters):
    """Emits the phases of a kernel; lanes are elements of the row.

    Attributes:
        groups: The columns of each step, merged.
        buffers: The registers, and other memory of a block.
    """

    groups: dict[int, MergedAxes]
    buffers: list[Any]

    def over_threads(self, body: Any) -> Any:
        """A statement for each thread of a row."""
        raise NotImplementedError

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
        most = self.most_chunks if self.resident else CHUNKS  # registers need known places
        return in_turns(self.chunk, self.tile.chunks, most, whole)

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
