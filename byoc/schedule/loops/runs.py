"""Runs of an axis: rows of a tile, vectors of a tile, and how an axis is split into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import integer
from ....analysis.lifting.tir.node import as_dtype


@dataclass(frozen=True)
class AxisRun:
    """``count`` values of an axis: rows, or starts of vectors of ``lanes`` elements.

    ``offset`` is the number of preceding elements in the tile.
    """

    at: Callable[[Any], Any]
    count: int = 1
    lanes: int = 1
    offset: int = 0


Rows = AxisRun | None
Columns = Sequence[AxisRun]


#: TVM allocates larger arrays on the heap, which LLVM cannot promote to registers. Arrays of 1024
#: bytes go there, too, where `StorageRewrite` lets several of them share memory.
STACK = 1023


def split_runs(cols: Columns, rows: Rows) -> list[AxisRun]:
    """Split runs so that the accumulators, at most 64 bytes a vector, fit `STACK`."""
    most = max(1, STACK // 64 // (rows.count if rows else 1))
    out = []
    for run in cols:
        for k in range(0, run.count, most):
            out.append(_subrun(run, k, min(most, run.count - k)))
    return out


def _subrun(run: AxisRun, k: int, count: int) -> AxisRun:
    return run if k == 0 and count == run.count else replace(
        run, at=lambda c: run.at(c + integer(k, c)), count=count,
        offset=run.offset + k * run.lanes)  # fmt: skip


def vector_run(first: Any, count: int, lanes: int) -> AxisRun:
    """Return a run of adjacent vectors."""
    return AxisRun(lambda c: first + c * integer(lanes, c), count, lanes)


def grouped_runs(vectors: Sequence[tuple[int, int]], axis: Axis) -> list[AxisRun]:
    """Group vectors into runs of adjacent ones."""
    out: list[tuple[int, int, int]] = []
    for start, lanes in vectors:
        if out and out[-1][2] == lanes and out[-1][0] + out[-1][1] * lanes == start:
            out[-1] = out[-1][0], out[-1][1] + 1, lanes
        else:
            out.append((start, 1, lanes))
    runs, offset = [], 0
    for first, count, lanes in out:
        runs.append(replace(vector_run(integer(first, axis.var), count, lanes), offset=offset))
        offset += count * lanes
    return runs


def at_most(expr: Any, last: Any) -> Any:
    return expr if last is None else tirx.Min(expr, last)


def decreasing_tiles(extent: Any, axis: Axis, sizes: Sequence[int]) -> list[tuple[Any, int, Any]]:
    """Split a symbolic axis into tiles of decreasing sizes: (start, size, count)."""
    end = as_dtype(extent, str(axis.var.ty.dtype))
    base: Any = integer(0, axis.var)
    out = []
    for size in dict.fromkeys(sizes):
        count = tirx.FloorDiv(end - base, integer(size, axis.var))
        out.append((base, size, count))
        base = base + count * integer(size, axis.var)
    return out
