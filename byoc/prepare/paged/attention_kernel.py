"""A kernel for attention over pages or ragged batches on a CPU.

    for each tile of rows and head of keys, in parallel:
        load the queries of the tile and of all heads that share the keys, times the factor
        for each tile of the keys that one of them sees:  scores, softmax so far, weighted values
        store what they are divided by the sum of weights

Keys and values are read once for the heads that share them, and widened to float32. Rows of a last
tile are clamped: they are computed twice, and stored twice in one thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ....analysis.lifting.tir.node import as_dtype
from ...codegen.vector_units import VectorUnits
from ..loops.bfloat16_words import WIDE
from .attention_operands import AttentionOperands
from .kept_assertions import kept_assertions
from .key_parts import KeyParts, start_of_total
from .key_rows import KeyRows, flat
from .key_scores import score
from .query_tile import QueryTile
from .rotated_rows import Rotation
from .row_tiles import RowTile, row_tiles, task_count
from .tile_shape import KEYS, TileShape
from .tree_nodes import TreeNodes
from .vector_terms import INDEX, index, load, real, store, wide
from .weighted_values import softmax, weigh

#: The vectors of queries that a tile should have: rows, times the heads that share keys.
VECTORS = 16
#: TVM's attribute of scheduled functions.
SCHEDULED = "tirx.is_scheduled"
#: Bits of a vector. With vectors of 512 bits, fewer sums fit in the memory that TVM puts on the
#: stack, and the time is that of reading keys and values.
MOST_BITS = 256


def attention_kernel(func: Any, operands: AttentionOperands, cpu: VectorUnits) -> Any:
    """Return a PrimFunc with the parameters of `func` that computes the same attention.

    Args:
        func: The PrimFunc.
        operands: Its parameters by role.
        cpu: The CPU.
    """
    rows = 1 if operands.single else max(1, VECTORS // operands.together)
    lanes = math.gcd(min(MOST_BITS, cpu.vector_bits) // 32, operands.features)
    vectors = rows * operands.together
    shape = TileShape(vectors, operands.features, lanes, cpu.registers // 2)
    views = (flat(operands["query"]), flat(operands.output))
    kernel = _Kernel(operands, shape, rows, KeyRows.of(operands), Rotation.of(operands),
                     QueryTile.of(shape), TreeNodes.of(operands, vectors),
                     KeyParts.of(shape, cpu.cores), *views)  # fmt: skip
    body = seq([*kept_assertions(func), kernel.body()])
    return func.with_body(body).with_attr(SCHEDULED, True)


@dataclass(frozen=True)
class _Kernel:
    """The parts of a kernel, and the views of queries and results."""

    operands: AttentionOperands
    shape: TileShape
    rows: int
    keys: KeyRows
    rotation: Rotation
    tile: QueryTile
    nodes: TreeNodes | None
    parts: KeyParts | None
    queries: Any
    output: Any

    def body(self) -> Any:
        views = ((self.queries, self.operands["query"]), (self.output, self.operands.output))
        turned = tirx.AllocBuffer(self.rotation.powers)
        powers = tirx.IfThenElse(self.rotation.wanted, self.rotation.computed(), None)
        return seq([*(tirx.DeclBuffer(v, data=b.data) for v, b in views), *self.keys.declared,
                    turned, powers, *self._tasks()])  # fmt: skip

    def _tasks(self) -> list[Any]:
        """The loop over all tasks, and where keys are split, that over their results."""
        operands, rows, parts = self.operands, self.rows, self.parts
        if parts is None:
            return [row_tiles(operands, rows, index(1), False, self._task)]
        second = replace(self, tile=QueryTile.of(self.shape))  # each memory is allocated once
        split = row_tiles(operands, rows, index(1), True, second._combined)
        return [
            *parts.declared(task_count(operands, rows), operands.keys),
            row_tiles(operands, rows, parts.count, True, self._task),
            tirx.IfThenElse(parts.count > index(1), split, None),
        ]

    def _task(self, rows: RowTile) -> Any:
        """The work of a tile of rows, one head of keys and a part of the keys."""
        tile, parts = self.tile, self.parts
        scratch = tirx.decl_buffer([KEYS * self.shape.features], WIDE, name="turned")
        starts = tirx.decl_buffer([KEYS], INDEX, name="turned_starts")
        count, begin, end = (tirx.Var(name, INDEX) for name in ("count", "begin", "end"))
        bounds = self._tiles() if parts is None else parts.bounds(rows.part, *self._tiles())
        return seq([
            *tile.allocated, *self.keys.allocated, tirx.AllocBuffer(scratch),
            tirx.AllocBuffer(starts), *([] if self.nodes is None else self.nodes.allocated),
            loop("j", KEYS, index(0), lambda j: tirx.BufferStore(
                starts, j * index(self.shape.features), [j])),
            tirx.Bind(count, self.keys.count(rows.sequence)),
            *self._each(rows, lambda r, h, i: self._loaded(rows, r, h, i, count)),
            tile.started(start_of_total(rows.part)),
            *(tirx.Bind(var, value) for var, value in zip((begin, end), bounds, strict=True)),
            tirx.IfThenElse(begin < end, self._located(rows, begin, count), None),
            loop("t", tirx.Max(end - begin, index(0)), index(0), lambda t: self._keys(
                rows, begin + t, count, scratch, starts)),
            self._finished(rows),
        ])  # fmt: skip

    def _tiles(self) -> tuple[Any, Any]:
        """The first tile of keys that a task sees, and the one after its last."""
        first = load(self.tile.first, index(0))
        last = load(self.tile.last, index(self.shape.vectors - 1))
        return (tirx.FloorDiv(as_dtype(first, INDEX), index(KEYS)),
                tirx.FloorDiv(as_dtype(last, INDEX) + index(KEYS - 1), index(KEYS)))  # fmt: skip

    def _finished(self, rows: RowTile) -> Any:
        """Store results, or keep those of a part."""
        stored = seq(self._each(rows, lambda r, h, i: self._stored(rows, r, h, i)))
        if self.parts is None:
            return stored
        saved = self.parts.saved(self.tile, rows.task * self.parts.count + rows.part)
        return tirx.IfThenElse(tirx.EQ(self.parts.count, index(1)), stored, saved)

    def _combined(self, rows: RowTile) -> Any:
        """Combine the parts of a tile of rows and one head of keys, and store the results."""
        assert self.parts is not None
        return seq([
            *self.tile.allocated, self.tile.started(real(0.0)),
            self.parts.combined(self.tile, rows.task),
            *self._each(rows, lambda r, h, i: self._stored(rows, r, h, i)),
        ])  # fmt: skip

    def _each(self, rows: RowTile, body: Any) -> list[Any]:
        """Loops over the rows and heads of a tile."""
        together = self.operands.together
        return [loop("r", self.rows, index(0), lambda r: loop(
            "h", together, index(0), lambda h: body(r, h, r * index(together) + h)))]  # fmt: skip

    def _head(self, rows: RowTile, h: Any) -> Any:
        return rows.group * index(self.operands.together) + h

    def _loaded(self, rows: RowTile, r: Any, h: Any, i: Any, count: Any) -> Any:
        """Load a query, and note which keys it sees."""
        lanes, tile, operands = self.shape.lanes, self.tile, self.operands
        row, local, place = (tirx.Var(name, INDEX) for name in ("row", "local", "place"))
        start = (row * index(operands.heads) + self._head(rows, h)) * index(self.shape.features)
        first, last = rows.seen(operands, local, count)
        factor = operands.scalars[3] * tirx.FloatImm(WIDE, math.log2(math.e))
        goal = i * index(self.shape.features)
        # trees over pages have no positions, and turn nothing
        position = operands.at("positions", row) if "positions" in operands.roles else index(0)
        copied = loop("c", self.shape.chunks, index(0), lambda c: store(
            tile.queries, wide(self.queries, place + c * index(lanes), lanes),
            goal + c * index(lanes), lanes))  # fmt: skip
        return seq([
            tirx.Bind(local, rows.local(r)), tirx.Bind(row, rows.start + local),
            tirx.Bind(place, start),
            tirx.IfThenElse(self.rotation.wanted, self.rotation.turned(
                self.queries, place, position, tile.queries, goal), copied),
            loop("d", self.shape.features, index(0), lambda d: tirx.BufferStore(
                tile.queries, load(tile.queries, goal + d) * factor, [goal + d])),
            tirx.BufferStore(tile.first, tirx.Cast("int32", first), [i]),
            tirx.BufferStore(tile.last, tirx.Cast("int32", last), [i]),
            *([] if self.nodes is None else [self.nodes.noted(rows, local, i)]),
        ])  # fmt: skip

    def _located(self, rows: RowTile, tile: Any, count: Any) -> Any:
        return self.keys.located(rows.sequence, rows.group, tile * index(KEYS), count)

    def _keys(self, rows: RowTile, tile: Any, count: Any, scratch: Any, starts: Any) -> Any:
        """The work of a tile of keys; it finds the next one while values are on their way."""
        keys, lanes, base = self.keys, self.shape.lanes, tile * index(KEYS)
        turn = loop("j", KEYS, index(0), lambda j: self.rotation.turned(
            keys.keys, load(keys.key_starts, j), keys.position(rows.sequence, base + j, count),
            scratch, j * index(self.shape.features)))  # fmt: skip

        def turned_key(row: Any, at: Any) -> Any:
            return load(scratch, row + at, lanes)

        def key(row: Any, at: Any) -> Any:
            return wide(keys.keys, row + at, lanes)

        turned = seq([turn, score(self.tile, starts, turned_key, keys)])
        direct = score(self.tile, keys.key_starts, key, keys)
        return seq([
            keys.found_values(), tirx.IfThenElse(self.rotation.wanted, turned, direct),
            self._located(rows, tile + index(1), count),
            *([] if self.nodes is None else [self.nodes.located(rows.sequence, base, count)]),
            softmax(self.tile, base, self.nodes), weigh(self.tile, keys),
        ])  # fmt: skip

    def _stored(self, rows: RowTile, r: Any, h: Any, i: Any) -> Any:
        """Store the result of a query."""
        features, lanes = index(self.shape.features), self.shape.lanes
        row, total, place = (tirx.Var(n, t) for n, t in (("row", INDEX), ("total", WIDE),
                                                         ("place", INDEX)))  # fmt: skip
        head = self._head(rows, h)
        merged = load(self.tile.top, i) + tirx.log2(total)
        return seq([
            tirx.Bind(row, rows.start + rows.local(r)),
            tirx.Bind(total, load(self.tile.total, i)),
            tirx.Bind(place, (row * index(self.operands.heads) + head) * features),
            loop("c", self.shape.chunks, index(0), lambda c: store(
                self.output, self._mean(i, c, total), place + c * index(lanes), lanes)),
            tirx.BufferStore(self.operands.merged, merged, [row, head]),
        ])  # fmt: skip

    def _mean(self, i: Any, c: Any, total: Any) -> Any:
        lanes = self.shape.lanes
        place = i * index(self.shape.features) + c * index(lanes)
        weighted = load(self.tile.sums, place, lanes)
        return weighted / (tirx.Broadcast(total, lanes) if lanes > 1 else total)
