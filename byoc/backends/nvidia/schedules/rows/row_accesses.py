"""What the steps over rows read and write, and along which axes that is contiguous."""

from __future__ import annotations

from typing import Any

from ......analysis.blocks.strides import strided_access
from ......analysis.blocks.tir import loads
from ......analysis.lifting.tir.node import items, substitute
from ..program.gpu_program import GpuProgram, expanded
from ..program.merged_axes import MergedAxes, bound, merged
from ..program.row_space import RowSpace, RowStep


def parts_of(program: GpuProgram, row: RowStep) -> list[Any]:
    """Return the values that a step computes."""
    out = []
    for update in row.step.updates:
        lets, value = expanded(update.value, program.definitions)
        out += [*(e for _, e in lets), value]
    return out


def reads_along(program: GpuProgram, space: RowSpace, row: RowStep, axis: Any) -> bool:
    """Return whether a step reads consecutive elements of a parameter along an axis."""
    analyzer = bound([*space.rows, *row.columns])
    return any(strided_access(e.source, items(e.indices), [axis], analyzer).step(axis) == 1
               for part in parts_of(program, row) for e in loads(substitute(part, row.at))
               if e.source in program.params)  # fmt: skip


def vector_buffers(program: GpuProgram, space: RowSpace) -> list[Any]:
    """Return the parameters that steps with columns read, or write for each column."""
    out = []
    for row in space.steps:
        if row.columns:
            out += [e.source for part in parts_of(program, row) for e in loads(part)
                    if e.source in program.params]  # fmt: skip
            if not row.step.reduced:
                out += [u.buffer for u in row.step.updates if u.buffer in program.params]
    return out


def merged_columns(program: GpuProgram, space: RowSpace, row: RowStep) -> MergedAxes:
    """Return the columns of a step, merged where all its accesses allow it."""
    analyzer = bound([*space.rows, *row.columns])
    columns = [c.var for c in row.columns]
    parts = [substitute(e, row.at) for e in parts_of(program, row)]
    accesses = [strided_access(e.source, items(e.indices), columns, analyzer)
                for part in parts for e in loads(part)]  # fmt: skip
    if not row.step.reduced:
        accesses += [strided_access(u.buffer, [substitute(i, row.at) for i in u.indices],
                                    columns, analyzer) for u in row.step.updates]  # fmt: skip
    return merged(row.columns, accesses, parts)


def merged_rows(program: GpuProgram, space: RowSpace) -> MergedAxes:
    """Return the rows, merged where the accesses of all steps allow it."""
    accesses, exprs = [], []
    rows = [r.var for r in space.rows]
    for row in space.steps:
        analyzer = bound([*space.rows, *row.columns])
        parts = [substitute(e, row.at) for e in parts_of(program, row)]
        exprs += parts
        reads = [(e.source, items(e.indices)) for p in parts for e in loads(p)]
        writes = [(u.buffer, [substitute(i, row.at) for i in u.indices])
                  for u in row.step.updates]  # fmt: skip
        accesses += [strided_access(b, i, rows, analyzer) for b, i in reads + writes]
    return merged(space.rows, accesses, exprs)
