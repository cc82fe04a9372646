"""Tiles of rows: some queries of one sequence, for one head of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ....analysis.lifting.tir.node import as_dtype
from .attention_operands import AttentionOperands
from .vector_terms import INDEX, index, load


@dataclass(frozen=True)
class RowTile:
    """Rows of a sequence.

    Attributes:
        sequence: The sequence.
        group: The head of keys.
        start: The first row of the sequence.
        length: The number of its rows.
        first: The first row of the tile, counted in the sequence; one of its rows.
    """

    sequence: Any
    group: Any
    start: Any
    length: Any
    first: Any

    def local(self, r: Any) -> Any:
        """Return the place of row r of the tile in its sequence; behind the last one, that one."""
        return tirx.Min(self.first + r, self.length - index(1))

    def seen(self, operands: AttentionOperands, row: Any, count: Any) -> tuple[Any, Any]:
        """Return the first key that a row sees, and the one after the last.

        Args:
            operands: The operands.
            row: The row, counted in its sequence.
            count: The number of keys.
        """
        if "causal" not in operands.roles:
            return index(0), count
        causal = operands["causal"] > tirx.IntImm("int32", 0)
        if operands.window:
            past = tirx.Max(index(operands.window - 1) - row, index(0))
            first = tirx.if_then_else(causal, tirx.Max(count - past, index(0)), index(0))
            return first, count
        end = tirx.Max(count - self.length + row + index(1), index(0))
        return index(0), tirx.if_then_else(causal, tirx.Min(end, count), count)


def row_tiles(
    operands: AttentionOperands, rows: int, parallel: bool, body: Callable[[RowTile], Any]
) -> Any:
    """Return the loop over all tiles of rows and heads of keys.

    Args:
        operands: The operands.
        rows: The rows of a tile.
        parallel: Whether to run tiles in parallel.
        body: Returns the work of a tile.
    """
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    groups = index(operands.groups)
    total = as_dtype(operands["query"].ty.shape[0], INDEX)
    if "query_indptr" not in operands.roles:
        return loop("task", total * groups, index(0), lambda task: body(RowTile(
            tirx.FloorDiv(task, groups), tirx.FloorMod(task, groups), tirx.FloorDiv(task, groups),
            index(1), index(0))), kind)  # fmt: skip
    batch = as_dtype(operands["query_indptr"].ty.shape[0], INDEX) - index(1)
    most = tirx.FloorDiv(total, index(rows)) + batch  # each sequence may have an incomplete tile
    return loop("task", most * groups, index(0), lambda task: _found(
        operands, rows, batch, tirx.FloorDiv(task, groups), tirx.FloorMod(task, groups), body),
        kind)  # fmt: skip


def _found(
    operands: AttentionOperands, rows: int, batch: Any, number: Any, group: Any,
    body: Callable[[RowTile], Any],
) -> Any:  # fmt: skip
    """The work of a tile by its number, counted through all sequences; none behind the last."""
    sequence, tile = (tirx.decl_buffer([1], INDEX, name=n) for n in ("sequence", "tile"))
    zero = index(0)
    b, t = load(sequence, zero), load(tile, zero)

    def starts(place: Any) -> Any:
        return operands.at("query_indptr", place)

    tiles = tirx.FloorDiv(starts(b + index(1)) - starts(b) + index(rows - 1), index(rows))
    before = tirx.if_then_else(b < batch, t >= tiles, tirx.const(False, "bool"))
    names = [tirx.Var(n, INDEX) for n in ("sequence", "start", "length", "first")]
    found = RowTile(names[0], group, *names[1:])
    values = (b, starts(names[0]), starts(names[0] + index(1)) - names[1], t * index(rows))
    return seq([
        tirx.AllocBuffer(sequence), tirx.AllocBuffer(tile),
        tirx.BufferStore(sequence, zero, [zero]), tirx.BufferStore(tile, number, [zero]),
        tirx.While(before, seq([
            tirx.BufferStore(tile, t - tiles, [zero]),
            tirx.BufferStore(sequence, b + index(1), [zero]),
        ])),
        tirx.IfThenElse(b < batch, seq([
            *(tirx.Bind(n, v) for n, v in zip(names, values, strict=True)), body(found),
        ]), None),
    ])  # fmt: skip
