"""Tiles of rows: some queries of one sequence, for one head of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
        task: The number of the tile and head of keys, among all.
        part: The part of its keys.
    """

    sequence: Any
    group: Any
    start: Any
    length: Any
    first: Any
    task: Any
    part: Any

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


def task_count(operands: AttentionOperands, rows: int) -> Any:
    """Return the number of tiles of rows and heads of keys; some of them may be empty.

    Args:
        operands: The operands.
        rows: The rows of a tile.
    """
    total, groups = as_dtype(operands["query"].ty.shape[0], INDEX), index(operands.groups)
    if operands.single:
        return total * groups
    return (tirx.FloorDiv(total, index(rows)) + _batch(operands)) * groups


def row_tiles(
    operands: AttentionOperands, rows: int, parts: Any, parallel: bool,
    body: Callable[[RowTile], Any],
) -> Any:  # fmt: skip
    """Return the loop over all tiles of rows, heads of keys, and parts of keys.

    Args:
        operands: The operands.
        rows: The rows of a tile.
        parts: The parts of the keys.
        parallel: Whether to run tiles in parallel.
        body: Returns the work of a tile.
    """
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    groups = index(operands.groups)

    def work(number: Any) -> Any:
        task, part, tile, group = (tirx.Var(n, INDEX) for n in ("task", "part", "tile", "group"))
        values = (tirx.FloorDiv(number, parts), tirx.FloorMod(number, parts),
                  tirx.FloorDiv(task, groups), tirx.FloorMod(task, groups))  # fmt: skip
        place = RowTile(tile, group, tile, index(1), index(0), task, part)
        done = body(place) if operands.single else _found(operands, rows, place, body)
        names = (task, part, tile, group)
        return seq([*(tirx.Bind(n, v) for n, v in zip(names, values, strict=True)), done])

    return loop("number", task_count(operands, rows) * parts, index(0), work, kind)


def _batch(operands: AttentionOperands) -> Any:
    return as_dtype(operands["query_indptr"].ty.shape[0], INDEX) - index(1)


def _found(
    operands: AttentionOperands, rows: int, numbered: RowTile, body: Callable[[RowTile], Any]
) -> Any:
    """The work of a tile by its number, counted through all sequences; none behind the last."""
    batch, number = _batch(operands), numbered.sequence
    sequence, tile = (tirx.decl_buffer([1], INDEX, name=n) for n in ("sequence", "tile"))
    zero = index(0)
    b, t = load(sequence, zero), load(tile, zero)

    def starts(place: Any) -> Any:
        return operands.at("query_indptr", place)

    tiles = tirx.FloorDiv(starts(b + index(1)) - starts(b) + index(rows - 1), index(rows))
    before = tirx.if_then_else(b < batch, t >= tiles, tirx.const(False, "bool"))
    names = {n: tirx.Var(n, INDEX) for n in ("sequence", "start", "length", "first")}
    found = replace(numbered, **names)
    end = starts(found.sequence + index(1))
    values = (b, starts(found.sequence), end - found.start, t * index(rows))
    return seq([
        tirx.AllocBuffer(sequence), tirx.AllocBuffer(tile),
        tirx.BufferStore(sequence, zero, [zero]), tirx.BufferStore(tile, number, [zero]),
        tirx.While(before, seq([
            tirx.BufferStore(tile, t - tiles, [zero]),
            tirx.BufferStore(sequence, b + index(1), [zero]),
        ])),
        tirx.IfThenElse(b < batch, seq([
            *(tirx.Bind(n, v) for n, v in zip(names.values(), values, strict=True)),
            body(found),
        ]), None),
    ])  # fmt: skip
