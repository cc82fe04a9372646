"""The softmax of scores so far, and values that are weighted by it.

Source of the softmax that is corrected as keys come in: Milakov and Gimelshein, arXiv 1805.02867.

    m' = max(m[i], s[i, :]);  f = 2^(m[i] - m');  p[j] = 2^(s[i, j] - m')
    m[i] = m';  sum[i] = sum[i] * f + sum(p);  o[i] = o[i] * f + sum(p[j] * value[j])
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ..loops.bfloat16_words import WIDE
from .key_rows import KeyRows, requested
from .query_tile import LOWEST, QueryTile
from .tile_shape import KEYS
from .tree_nodes import TreeNodes
from .vector_terms import Steps, index, load, ramp, real, spread, store, vector_type, wide


def softmax(tile: QueryTile, base: Any, nodes: TreeNodes | None) -> Any:
    """Return the weights of a tile of keys, in place of scores, and corrected sums of them.

    Args:
        tile: The queries.
        base: The first key of the tile.
        nodes: The nodes of trees that queries and keys are.
    """
    return loop("i", tile.shape.vectors, index(0), lambda i: _row_of_weights(tile, i, base, nodes))


def _row_of_weights(tile: QueryTile, i: Any, base: Any, nodes: TreeNodes | None) -> Any:
    lanes, steps = min(tile.shape.lanes, KEYS), Steps()
    first, last = (steps.bind(load(b, i), "int32") for b in (tile.first, tile.last))
    start = tirx.Cast("int32", base)
    places = [i * index(KEYS) + index(k) for k in range(0, KEYS, lanes)]
    seen, scores = [], []
    for k, place in zip(range(0, KEYS, lanes), places, strict=True):
        column = ramp(start + tirx.IntImm("int32", k), lanes)
        inside = tirx.And(column >= spread(first, lanes), column < spread(last, lanes))
        if nodes is not None:
            inside = tirx.And(inside, nodes.seen(i, k, lanes))
        score = tirx.Select(inside, load(tile.scores, place, lanes), real(LOWEST, lanes))
        seen.append(inside)
        scores.append(steps.keep(score, lanes=lanes))
    top = steps.bind(load(tile.top, i))
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
        *(store(tile.scores, w, p, lanes) for w, p in zip(weights, places, strict=True)),
        store(tile.total, load(tile.total, i) * factor + total, i),
        store(tile.factor, factor, i), store(tile.top, new, i),
    ])  # fmt: skip


def weigh(tile: QueryTile, rows: KeyRows) -> Any:
    """Return the corrected sums of values, with those of a tile."""
    queries, chunks = tile.shape.value_block
    width = chunks * tile.shape.lanes

    def block(i: Any, c: Any) -> Any:
        return _block_of_sums(tile, i * index(queries), c * index(width), rows)

    return loop("i", tile.shape.vectors // queries, index(0), lambda i: loop(
        "c", tile.shape.chunks // chunks, index(0), lambda c: block(i, c)))  # fmt: skip


def _block_of_sums(tile: QueryTile, i: Any, at: Any, rows: KeyRows) -> Any:
    (queries, chunks), lanes = tile.shape.value_block, tile.shape.lanes
    part = tirx.decl_buffer([queries * chunks * lanes], WIDE, name="part")
    cells = [(a, b, index((a * chunks + b) * lanes))
             for a in range(queries) for b in range(chunks)]  # fmt: skip

    def place(a: int, b: int) -> Any:
        return (i + index(a)) * index(tile.shape.features) + at + index(b * lanes)

    def key(j: Any) -> Any:
        names = [tirx.Var("value", vector_type(WIDE, lanes)) for _ in range(chunks)]
        row = tirx.Var("row", "int64")
        steps = [tirx.Bind(row, load(rows.value_starts, j))]
        if tile.shape.once:  # the keys of the next tile
            steps += requested(rows.keys, load(rows.key_starts, j) + at, chunks * lanes)
        steps += [tirx.Bind(n, wide(rows.values, row + at + index(b * lanes), lanes))
                  for b, n in enumerate(names)]  # fmt: skip
        for a, b, cell in cells:
            weight = spread(load(tile.scores, (i + index(a)) * index(KEYS) + j), lanes)
            new = load(part, cell, lanes) + weight * names[b]
            steps.append(store(part, new, cell, lanes))
        return seq(steps)

    factors = (spread(load(tile.factor, i + index(a)), lanes) for a, _, _ in cells)
    started = (load(tile.sums, place(a, b), lanes) * factor
               for (a, b, _), factor in zip(cells, factors, strict=True))  # fmt: skip
    return seq([
        tirx.AllocBuffer(part),
        *(store(part, v, cell, lanes) for v, (_, _, cell) in zip(started, cells, strict=True)),
        loop("j", KEYS, index(0), key),
        *(store(tile.sums, load(part, cell, lanes), place(a, b), lanes)
          for a, b, cell in cells),
    ])  # fmt: skip
