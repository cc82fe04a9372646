"""Attention of some queries to a tile of keys: scores, their softmax so far, weighted values.

Source of the softmax that is corrected as keys come in: Milakov and Gimelshein, arXiv 1805.02867.

    s[i, j] = q[i] . key[j]
    m' = max(m[i], s[i, :]);  f = 2^(m[i] - m');  p[j] = 2^(s[i, j] - m')
    m[i] = m';  sum[i] = sum[i] * f + sum(p);  o[i] = o[i] * f + sum(p[j] * value[j])
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from .key_rows import KeyRows, requested
from .tile_shape import KEYS, TileShape
from .vector_terms import (
    WIDE,
    Steps,
    index,
    load,
    ramp,
    real,
    spread,
    store,
    vector_type,
    wide,
)

#: Where TVM's kernels start the maximum of scores: keys below it weigh nothing.
LOWEST = -5e4
#: Reads the vector of a key that begins at an element, from where its row begins.
ReadKey = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class QueryTile:
    """The memory of a task, in float32, flat.

    Attributes:
        shape: The sizes.
        queries: (vectors, features), times the factor of scores and the logarithm of e to base 2.
        sums: (vectors, features): the weighted values so far.
        scores: (vectors, keys).
        top: (vectors,): the largest score so far.
        total: (vectors,): the sum of weights so far.
        factor: (vectors,): by what a tile corrects earlier sums.
        first: (vectors,): the first key that a query sees, int32.
        last: (vectors,): the key after the last one that it sees, int32.
    """

    shape: TileShape
    queries: Any
    sums: Any
    scores: Any
    top: Any
    total: Any
    factor: Any
    first: Any
    last: Any

    @classmethod
    def of(cls, shape: TileShape) -> QueryTile:
        """Return memory for some sizes, which is to be allocated."""

        def memory(name: str, elements: int, dtype: str = WIDE) -> Any:
            return tirx.decl_buffer([shape.vectors * elements], dtype, name=name)

        return cls(shape, memory("queries", shape.features), memory("sums", shape.features),
                   memory("scores", KEYS), memory("top", 1), memory("total", 1),
                   memory("factor", 1), memory("first", 1, "int32"),
                   memory("last", 1, "int32"))  # fmt: skip

    @property
    def allocated(self) -> list[Any]:
        """The allocations, inside of the task."""
        return [tirx.AllocBuffer(b) for b in (
            self.queries, self.sums, self.scores, self.top, self.total, self.factor, self.first,
            self.last)]  # fmt: skip

    def started(self) -> Any:
        """Return the start of sums, as TVM's kernels have it."""
        lanes = self.shape.lanes
        return loop("i", self.shape.vectors, index(0), lambda i: seq([
            tirx.BufferStore(self.top, real(LOWEST), [i]),
            tirx.BufferStore(self.total, real(1.0), [i]),
            loop("c", self.shape.chunks, index(0), lambda c: store(
                self.sums, real(0.0, lanes), i * index(self.shape.features) + c * index(lanes),
                lanes)),
        ]))  # fmt: skip

    def score(self, starts: Any, read: ReadKey, rows: KeyRows) -> Any:
        """Return the scores of a tile of keys, whose values are requested meanwhile.

        Args:
            starts: Where the row of each key begins.
            read: Reads elements of a row.
            rows: Where the values are.
        """
        queries, keys = self.shape.score_block
        return loop("i", self.shape.vectors // queries, index(0), lambda i: loop(
            "j", KEYS // keys, index(0), lambda j: self._block_of_scores(
                i * index(queries), j * index(keys), starts, read, rows)))  # fmt: skip

    def _block_of_scores(self, i: Any, j: Any, starts: Any, read: ReadKey, values: KeyRows) -> Any:
        """The scores of some queries and keys: lanes of partial sums, then their sums."""
        shape, (queries, keys) = self.shape, self.shape.score_block
        count = 1 << (queries * keys - 1).bit_length()  # folding takes a power of two
        count = max(count if count <= shape.lanes else keys, 1)
        lanes, many = shape.lanes, queries * keys
        part = tirx.decl_buffer([many * lanes], WIDE, name="part")
        rows = [tirx.Var("row", "int64") for _ in range(keys)]

        def chunk(c: Any) -> Any:
            at = c * index(lanes)
            names = [tirx.Var("key", vector_type(WIDE, lanes)) for _ in rows]
            steps = [tirx.Bind(n, read(row, at)) for n, row in zip(names, rows, strict=True)]
            for a in range(queries):
                query = tirx.Var("query", vector_type(WIDE, lanes))
                place = (i + index(a)) * index(shape.features) + at
                steps.append(tirx.Bind(query, load(self.queries, place, lanes)))
                for b, key in enumerate(names):
                    cell = index((a * keys + b) * lanes)
                    steps.append(store(part, load(part, cell, lanes) + query * key, cell, lanes))
            return seq(steps)

        cells = [index(k * lanes) for k in range(many)]
        asked = [requested(values.values, load(values.value_starts, j + index(b)), shape.features)
                 for b in range(keys) if self.shape.once]  # fmt: skip
        return seq([
            *(step for steps in asked for step in steps),
            *(tirx.Bind(row, load(starts, j + index(b))) for b, row in enumerate(rows)),
            tirx.AllocBuffer(part),
            *(store(part, real(0.0, lanes), cell, lanes) for cell in cells),
            loop("c", shape.chunks, index(0), chunk),
            *self._folded(part, i, j, count),
        ])  # fmt: skip

    def _folded(self, part: Any, i: Any, j: Any, count: int) -> list[Any]:
        """The stores of scores, whose partial sums are folded ``count`` at a time."""
        (queries, keys), lanes = self.shape.score_block, self.shape.lanes
        steps, most = Steps(), queries * keys - 1
        for start in range(0, queries * keys, count):
            places = (index(min(start + k, most) * lanes) for k in range(count))
            vectors = [steps.bind(load(part, place, lanes), lanes=lanes) for place in places]
            sums = steps.folded(operator.add, vectors, lanes)
            for k in range(start, min(start + count, most + 1), keys):
                row = (i + index(k // keys)) * index(KEYS) + j
                picked = [index(k - start + b) for b in range(keys)]
                value = tirx.Shuffle([sums], picked) if count > 1 else sums
                steps.statements.append(store(self.scores, value, row, keys))
        return steps.statements

    def softmax(self, base: Any) -> Any:
        """Return the weights of a tile of keys, in place of scores, and corrected sums of them.

        Args:
            base: The first key of the tile.
        """
        return loop("i", self.shape.vectors, index(0), lambda i: self._row_of_weights(i, base))

    def _row_of_weights(self, i: Any, base: Any) -> Any:
        lanes, steps = min(self.shape.lanes, KEYS), Steps()
        first, last = (steps.bind(load(b, i), "int32") for b in (self.first, self.last))
        start = tirx.Cast("int32", base)
        places = [i * index(KEYS) + index(k) for k in range(0, KEYS, lanes)]
        seen, scores = [], []
        for k, place in zip(range(0, KEYS, lanes), places, strict=True):
            column = ramp(start + tirx.IntImm("int32", k), lanes)
            inside = tirx.And(column >= spread(first, lanes), column < spread(last, lanes))
            score = tirx.Select(inside, load(self.scores, place, lanes), real(LOWEST, lanes))
            seen.append(inside)
            scores.append(steps.keep(score, lanes=lanes))
        top = steps.bind(load(self.top, i))
        largest = steps.folded(tirx.Max, [steps.keep(reduce(tirx.Max, scores), lanes=lanes)], lanes)
        new = steps.keep(tirx.Max(top, largest))
        weights = []
        for inside, score in zip(seen, scores, strict=True):
            power = steps.exp2(steps.keep(score - spread(new, lanes), lanes=lanes), lanes)
            weight = tirx.Select(inside, power, real(0.0, lanes))
            weights.append(steps.keep(weight, lanes=lanes))
        factor = steps.exp2(steps.keep(top - new), 1)
        total = steps.folded(operator.add, [steps.keep(sum(weights[1:], weights[0]), lanes=lanes)],
                             lanes)  # fmt: skip
        return seq([
            *steps.statements,
            *(store(self.scores, w, p, lanes) for w, p in zip(weights, places, strict=True)),
            store(self.total, load(self.total, i) * factor + total, i),
            store(self.factor, factor, i), store(self.top, new, i),
        ])  # fmt: skip

    def weigh(self, rows: KeyRows) -> Any:
        """Return the corrected sums of values, with those of a tile."""
        queries, chunks = self.shape.value_block
        return loop("i", self.shape.vectors // queries, index(0), lambda i: loop(
            "c", self.shape.chunks // chunks, index(0), lambda c: self._block_of_sums(
                i * index(queries), c * index(chunks * self.shape.lanes), rows)))  # fmt: skip

    def _block_of_sums(self, i: Any, at: Any, rows: KeyRows) -> Any:
        (queries, chunks), lanes = self.shape.value_block, self.shape.lanes
        part = tirx.decl_buffer([queries * chunks * lanes], WIDE, name="part")
        cells = [(a, b, index((a * chunks + b) * lanes))
                 for a in range(queries) for b in range(chunks)]  # fmt: skip

        def place(a: int, b: int) -> Any:
            return (i + index(a)) * index(self.shape.features) + at + index(b * lanes)

        def key(j: Any) -> Any:
            names = [tirx.Var("value", vector_type(WIDE, lanes)) for _ in range(chunks)]
            row = tirx.Var("row", "int64")
            steps = [tirx.Bind(row, load(rows.value_starts, j))]
            if self.shape.once:  # the keys of the next tile
                steps += requested(rows.keys, load(rows.key_starts, j) + at, chunks * lanes)
            steps += [tirx.Bind(n, wide(rows.values, row + at + index(b * lanes), lanes))
                      for b, n in enumerate(names)]  # fmt: skip
            for a, b, cell in cells:
                weight = spread(load(self.scores, (i + index(a)) * index(KEYS) + j), lanes)
                new = load(part, cell, lanes) + weight * names[b]
                steps.append(store(part, new, cell, lanes))
            return seq(steps)

        factors = (spread(load(self.factor, i + index(a)), lanes) for a, _, _ in cells)
        started = (load(self.sums, place(a, b), lanes) * factor
                   for (a, b, _), factor in zip(cells, factors, strict=True))  # fmt: skip
        return seq([
            tirx.AllocBuffer(part),
            *(store(part, v, cell, lanes) for v, (_, _, cell) in zip(started, cells, strict=True)),
            loop("j", KEYS, index(0), key),
            *(store(self.sums, load(part, cell, lanes), place(a, b), lanes)
              for a, b, cell in cells),
        ])  # fmt: skip
