"""Windows that overlap and have weights, as of depthwise convolutions: several results a thread.

    for h, w, c; r, s: y[h, w, c] += x[2 * h + r, 2 * w + s, c] * k[r, s, c]

    for r:
      k_reg[s, v] = k[r, s, 8 * t + v]                          vectors of 16 bytes
      for i: x_row[q, v] = x[2 * (h + i) + r, 2 * w + q, …]     a row of all its windows
             y_acc[i, j, v] += x_row[2 * j + s, v] * k_reg[s, v]

A thread has up to 2 x 4 neighbours of four channels, of large windows 1 x 7. Registers hold what is
read in the type of the sums, converted once. That windows read a function of 2 * i + r and of
2 * j + s is proved. Pools have no weights to share, and are faster with a thread for each result.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import Values, loads, mentions, seq, static, values
from .....analysis.lifting.tir.node import items, substitute
from .pointwise_kernel import FEW, MANY, Points
from .program.combiners import combiner
from .program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    expanded,
    extents,
    has_windows,
    itemsize,
)
from .program.merged_axes import MergedAxes, bound, positions_of, static_range
from .program.thread_loops import load, local, number, store, unrolled
from .window_reads import Slide, WindowReads, WindowTile

#: Results of a thread along rows and columns, and channels, at most; threads that fill a GPU.
ROWS, COLUMNS, LANES, ENOUGH = 2, 4, 4, 132 * 512
#: Results along rows and columns of windows of more than 16 halves: more of a row is shared.
LARGE = (1, 7)


def windows(program: GpuProgram) -> tuple[Any, list[Any]]:
    """Return the kernel of steps of which one reduces windows of two axes, and its buffers.

    Raises:
        NoGpuSchedule: It is not such a program.
    """
    return _Windows(program).kernel()


class _Windows(Points):
    """Emits the kernel of steps of which one reduces overlapping windows."""

    def __init__(self, program: GpuProgram) -> None:
        super().__init__(program, MANY)
        reduced = [s for s in self.steps if s.reduced]
        if len(reduced) != 1 or len(reduced[0].updates) != 1:
            raise NoGpuSchedule("not one reduction")
        (self.step,) = reduced
        (self.update,) = self.step.updates
        if not has_windows(self.step, self.parts(self.update)):
            raise NoGpuSchedule("windows do not overlap")
        self.combine = combiner(self.update)
        lets, term = expanded(self.combine.term, program.definitions)
        for var, part in reversed(lets):
            term = substitute(term, values((var, part)))
        self.term = substitute(term, self.renamed(self.step))
        self.down, self.across = self.slides()
        if not any(self.is_weight(expr) for expr in loads(self.term)):
            raise NoGpuSchedule("windows have no weights")
        self.i, self.j, self.lane = (tirx.Var(name, "int64") for name in "ijv")

    # ------------------------------------------------------------------ shape

    def slides(self) -> tuple[Slide, Slide]:
        """How windows move along the rows and the columns of the result."""
        terms = [a for a in self.step.reduced if static(a.extent) != 1]
        analyzer = bound([*self.axes, *self.step.reduced])
        slides: list[Slide] = []
        for expr in loads(self.term):
            for term in terms:
                slide = self.slide(expr, term, analyzer)
                if slide is not None and not any(slide.same_as(known) for known in slides):
                    slides.append(slide)
        order = [id(a) for a in self.axes]
        slides.sort(key=lambda s: order.index(id(s.axis)))
        distinct = {id(s.axis) for s in slides} | {id(s.term) for s in slides}
        if len(terms) != 2 or len(slides) != 2 or len(distinct) != 4:
            raise NoGpuSchedule("windows do not overlap along two axes")
        return slides[0], slides[1]

    def is_weight(self, expr: Any) -> bool:
        used = mentions(expr)
        moved = self.down.axis.var in used or self.across.axis.var in used
        return not moved and (self.down.term.var in used or self.across.term.var in used)

    def slide(self, expr: Any, term: Axis, analyzer: Any) -> Slide | None:
        for axis in self.axes:
            used = map(mentions, items(expr.indices))
            together = any(axis.var in u and term.var in u for u in used)
            access = strided_access(
                expr.source, items(expr.indices), [axis.var, term.var], analyzer
            )
            step, term_step = access.step(axis.var), access.step(term.var)
            if together and step and term_step and step % term_step == 0 and step // term_step > 0:
                return Slide(axis, term, step // term_step)
        return None

    def tile(self, vectors: int) -> tuple[int, int]:
        """How many rows and columns of results a thread has: fewer where threads would be few."""
        rows, columns = extents([self.down.axis, self.across.axis])
        high, wide = extents([self.down.term, self.across.term])
        halves = all(itemsize(e.source) <= 2 for e in loads(self.term))
        down, across = LARGE if halves and high * wide > FEW else (ROWS, COLUMNS)
        sides = [(i, j) for i in range(down, 0, -1) if rows % i == 0
                 for j in range(max(across, columns if columns < 8 else 0), 0, -1)
                 if columns % j == 0]  # fmt: skip
        sides.sort(key=lambda side: -side[0] * side[1])
        return next((s for s in sides if vectors // (s[0] * s[1]) >= ENOUGH), sides[-1])

    # ------------------------------------------------------------------ emission

    def kernel(self) -> tuple[Any, list[Any]]:
        groups = self.merged()
        width = min(self.width(groups), LANES)
        tiled = (self.down.axis, self.across.axis)
        for group, size in zip(groups.groups, groups.sizes, strict=True):
            if any(a is t and static(a.extent) != size for a in group for t in tiled):
                raise NoGpuSchedule("an axis of windows is merged")
        if any(groups.groups[-1][-1] is t for t in tiled):
            raise NoGpuSchedule("windows move along contiguous elements")
        self.rows, self.columns = self.tile(groups.total // width)
        coarse = MergedAxes(tuple(tuple(map(self.coarse, g)) for g in groups.groups))
        return self.launch(coarse, width)

    def coarse(self, axis: Axis) -> Axis:
        """The axis of tiles in place of an axis of results."""
        for slide, size in ((self.down, self.rows), (self.across, self.columns)):
            if axis is slide.axis:
                return Axis(axis.var, number((static(axis.extent) or size) // size))
        return axis

    def body(self, groups: MergedAxes, width: int, place: Any, analyzer: Any) -> Any:
        for var, extent in ((self.lane, width), (self.i, self.rows), (self.j, self.columns)):
            analyzer.bind(var, static_range(extent))
        at = groups.at(positions_of(groups, place, width), width, self.lane)
        for slide, size, var in (
            (self.down, self.rows, self.i),
            (self.across, self.columns, self.j),
        ):
            first = at[slide.axis.var]
            at[slide.axis.var] = first * number(size) + var if size > 1 else first + var
        out = self.windows(at, width, analyzer)
        for step in self.steps:
            pairs = zip(step.spatial, self.axes, strict=True)
            where = values(*((a.var, at[b.var]) for a, b in pairs))
            if any(u.buffer in self.program.params for u in step.updates):
                each = seq(self.results(step, where, self.lane, width, analyzer))
                out.append(self.each(each))
        return seq(out)

    def each(self, body: Any) -> Any:
        """The statements for each result of the tile."""
        return unrolled("i", self.rows, lambda i: unrolled("j", self.columns, lambda j: substitute(
            body, values((self.i, i), (self.j, j)))))  # fmt: skip

    def sum_at(self, register: Any, lane: Any) -> Any:
        return load(register, self.i, self.j, lane)

    def windows(self, at: Values, width: int, analyzer: Any) -> list[Any]:
        """Accumulate all windows of the tile."""
        name, (high, wide) = self.update.buffer.name, extents([self.down.term, self.across.term])
        acc = local(f"{name}_acc", [self.rows, self.columns, width], self.combine.dtype)
        self.sums[self.update.buffer] = acc
        self.buffers.append(acc)
        init = self.combine.start(self.update.init)
        start = unrolled("u", width, lambda u: store(acc, init, self.i, self.j, u))
        tile = WindowTile(self.down, self.across, self.rows, self.columns, self.step.reduced,
                          self.i, self.j, self.lane)  # fmt: skip
        reads = WindowReads(tile, at, width, analyzer, self.buffers)
        term = reads.placed(self.term)

        def one(j: Any, s: Any, u: Any) -> Any:
            place = values((self.j, j), (reads.s, s), (self.lane, u))
            total = self.combine(load(acc, self.i, self.j, self.lane), term)
            return substitute(store(acc, total, self.i, self.j, self.lane), place)

        sums = unrolled("j", self.columns, lambda j: unrolled("s", wide, lambda s: unrolled(
            "u", width, lambda u: one(j, s, u))))  # fmt: skip
        row = seq([*reads.of_rows, *reads.others.statements(), sums])
        line = unrolled("i", self.rows, lambda i: substitute(row, values((self.i, i))))
        kind = tirx.ForKind.UNROLLED if high * wide <= FEW else tirx.ForKind.SERIAL
        whole = seq([*reads.of_terms, line])
        self.buffers += [*reads.registers, *reads.others.registers]
        return [self.each(start), tirx.For(reads.r, number(0), number(high), kind, whole)]
