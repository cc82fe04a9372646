"""The rows that all steps of a PrimFunc share, and each step's elements within a row.

for i; k: s[i] += x[i, k]                            rows i, columns k
for i, k: y[i, k] = x[i, k] / s[i]                   rows i, columns k
for n, c, p: y[n, c, p] = x[n, c, p] - m[n, c // 8]  rows n, c // 8, columns c % 8, p
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ......analysis.blocks.loop_steps import Axis, LoopStep
from ......analysis.blocks.tir import Values, loads, static, values
from ......analysis.lifting.tir.node import NodeDict, items, substitute
from .gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    expanded,
    extents,
    has_windows,
    product,
    value_parts,
)
from .merged_axes import bound
from .thread_loops import number

#: Elements of a row that threads can share; a thread computes shorter ones alone.
SHORTEST = 24


@dataclass(frozen=True)
class RowStep:
    """A step over rows: ``at`` has its axes as functions of ``rows`` and of its ``columns``."""

    step: LoopStep
    at: Values
    columns: tuple[Axis, ...]

    @property
    def length(self) -> int:
        return product(extents(self.columns))


@dataclass(frozen=True)
class RowSpace:
    """The coordinates of a row, and the steps over all rows."""

    rows: tuple[Axis, ...]
    steps: tuple[RowStep, ...]

    @property
    def count(self) -> int:
        return product(extents(self.rows))


def row_space(program: GpuProgram, shortest: int = SHORTEST) -> tuple[RowSpace, int]:
    """Return the rows of a program, and their length.

    Raises:
        NoGpuSchedule: Its steps share no rows, or rows are short or of different lengths.
    """
    reductions = [s for s in program.steps if s.reduced]
    if not reductions:
        raise NoGpuSchedule("no step is a reduction")
    first = [a for a in reductions[0].spatial if static(a.extent) != 1]
    rows = tuple(Axis(tirx.Var(f"r{k}", "int64"), a.extent) for k, a in enumerate(first))
    reader = _Reader(program, rows)
    space = RowSpace(rows, tuple(map(reader.step, program.steps)))
    lengths = {s.length for s in space.steps if s.columns}
    if len(lengths) != 1:
        raise NoGpuSchedule("rows have different lengths")
    if (length := lengths.pop()) < shortest:
        raise NoGpuSchedule("rows are short")
    return space, length


class _Reader:
    """Finds for each step the coordinates of its buffers that are the rows' axes."""

    def __init__(self, program: GpuProgram, rows: tuple[Axis, ...]) -> None:
        self.program, self.rows = program, rows
        self.results: NodeDict[list[int | None]] = NodeDict()  # the row axis of each coordinate

    def step(self, step: LoopStep) -> RowStep:
        return self.reduction(step) if step.reduced else self.spatial(step)

    def reduction(self, step: LoopStep) -> RowStep:
        spatial = [a for a in step.spatial if static(a.extent) != 1]
        parts = [e for u in step.updates for e in value_parts(u, self.program.definitions)]
        if has_windows(step, parts):
            raise NoGpuSchedule("windows of a reduction overlap")
        if extents(spatial) != extents(self.rows):
            raise NoGpuSchedule("reductions are over different rows")
        at = self.units(step)
        for axis, row in zip(spatial, self.rows, strict=True):
            at[axis.var] = row.var
        for update in step.updates:
            self.results[update.buffer] = [self.coordinate(i, spatial) for i in update.indices]
        return RowStep(step, at, tuple(a for a in step.reduced if static(a.extent) != 1))

    def coordinate(self, index: Any, spatial: Sequence[Axis]) -> int | None:
        for k, axis in enumerate(spatial):
            if index.same_as(axis.var):
                return k
        if static(index) == 0 or not spatial or isinstance(index, tirx.Var):
            return None
        raise NoGpuSchedule("a reduction stores at a computed index")

    def units(self, step: LoopStep) -> Values:
        return values(*((a.var, tirx.IntImm(str(a.var.ty.dtype), 0))
                        for a in step.axes if static(a.extent) == 1))  # fmt: skip

    def spatial(self, step: LoopStep) -> RowStep:
        at, columns = self.units(step), []
        places = self.placed(step)
        for axis in step.axes:
            if static(axis.extent) == 1:
                continue
            row = places.get(axis.var)
            if row is None:
                columns.append(axis)
                continue
            k, inner = row
            if inner == 1:
                at[axis.var] = self.rows[k].var
                continue
            column = Axis(tirx.Var(f"{axis.var.name}_in", "int64"), number(inner))
            columns.append(column)
            at[axis.var] = self.rows[k].var * number(inner) + column.var
        return RowStep(step, at, tuple(columns))

    def placed(self, step: LoopStep) -> NodeDict[tuple[int, int]]:
        """Return the row axis that an axis is, or has as its leading digit before ``inner``."""
        places: NodeDict[tuple[int, int]] = NodeDict()
        analyzer = bound(step.axes)
        for expr in self.reads(step):
            for index, k in zip(items(expr.indices), self.results[expr.source], strict=True):
                if k is not None:
                    self.place(step, analyzer.simplify(index), k, places)
        if not len(places.items()):
            self.leading(step, places)
        if sorted(k for k, _ in places.values()) != list(range(len(self.rows))):
            raise NoGpuSchedule("a step does not have one element or more of each row")
        return places

    def reads(self, step: LoopStep) -> list[Any]:
        """Return the loads of reductions' results."""
        out = []
        for update in step.updates:
            lets, value = expanded(update.value, self.program.definitions)
            for part in [*(e for _, e in lets), value]:
                out += [e for e in loads(part) if e.source in self.results]
        return out

    def place(self, step: LoopStep, index: Any, k: int, places: NodeDict[tuple[int, int]]) -> None:
        inner = 1
        if isinstance(index, tirx.FloorDiv):
            inner, index = static(index.b) or 0, index.a
        axis = next((a for a in step.axes if index.same_as(a.var)), None)
        rows = static(self.rows[k].extent)
        if axis is None or inner < 1 or rows is None or static(axis.extent) != rows * inner:
            raise NoGpuSchedule("a step reads other rows than its own")
        if (known := places.get(axis.var)) is not None and known != (k, inner):
            raise NoGpuSchedule("a step reads several rows")
        places[axis.var] = (k, inner)

    def leading(self, step: LoopStep, places: NodeDict[tuple[int, int]]) -> None:
        """Of a step that reads no result: its leading axes are the rows, if they have the size."""
        axes = [a for a in step.axes if static(a.extent) != 1][: len(self.rows)]
        if extents(axes) != extents(self.rows):
            raise NoGpuSchedule("a step has other rows")
        for k, axis in enumerate(axes):
            places[axis.var] = (k, 1)


def substituted(row: RowStep, expr: Any, more: Values) -> Any:
    """Return an expression of a step over rows and columns, these replaced by ``more``."""
    return substitute(substitute(expr, row.at), more)


def same_index(a: Sequence[Any], b: Sequence[Any], analyzer: Any) -> bool:
    return len(a) == len(b) and all(
        tvm_ffi.structural_equal(x, y) or analyzer.can_prove_equal(x, y)
        for x, y in zip(a, b, strict=True)
    )
