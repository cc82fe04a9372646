"""Scores of some queries and the keys of a tile.

    s[i, j] = q[i] . key[j]

Lanes are partial sums of each product, which are then folded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ..loops.bfloat16_words import WIDE
from .key_rows import KeyRows, requested
from .query_tile import QueryTile
from .tile_shape import KEYS
from .vector_terms import Steps, index, load, real, store, vector_type

#: Reads the vector of a key that begins at an element, from where its row begins.
ReadKey = Callable[[Any, Any], Any]


def score(tile: QueryTile, starts: Any, read: ReadKey, rows: KeyRows) -> Any:
    """Return the scores of a tile of keys, whose values are requested meanwhile.

    Args:
        tile: The queries.
        starts: Where the row of each key begins.
        read: Reads elements of a row.
        rows: Where the values are.
    """
    queries, keys = tile.shape.score_block

    def block(i: Any, j: Any) -> Any:
        return _block_of_scores(tile, i * index(queries), j * index(keys), starts, read, rows)

    return loop("i", tile.shape.vectors // queries, index(0), lambda i: loop(
        "j", KEYS // keys, index(0), lambda j: block(i, j)))  # fmt: skip


def _block_of_scores(
    tile: QueryTile, i: Any, j: Any, starts: Any, read: ReadKey, values: KeyRows
) -> Any:
    """The scores of some queries and keys: lanes of partial sums, then their sums."""
    shape, (queries, keys) = tile.shape, tile.shape.score_block
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
            steps.append(tirx.Bind(query, load(tile.queries, place, lanes)))
            for b, key in enumerate(names):
                cell = index((a * keys + b) * lanes)
                steps.append(store(part, load(part, cell, lanes) + query * key, cell, lanes))
        return seq(steps)

    cells = [index(k * lanes) for k in range(many)]
    asked = [requested(values.values, load(values.value_starts, j + index(b)), shape.features)
             for b in range(keys) if tile.shape.once]  # fmt: skip
    return seq([
        *(step for steps in asked for step in steps),
        *(tirx.Bind(row, load(starts, j + index(b))) for b, row in enumerate(rows)),
        tirx.AllocBuffer(part),
        *(store(part, real(0.0, lanes), cell, lanes) for cell in cells),
        loop("c", shape.chunks, index(0), chunk),
        *_folded(tile, part, i, j, count),
    ])  # fmt: skip


def _folded(tile: QueryTile, part: Any, i: Any, j: Any, count: int) -> list[Any]:
    """The stores of scores, whose partial sums are folded ``count`` at a time."""
    (queries, keys), lanes = tile.shape.score_block, tile.shape.lanes
    steps, most = Steps(), queries * keys - 1
    for start in range(0, queries * keys, count):
        places = (index(min(start + k, most) * lanes) for k in range(count))
        vectors = [steps.bind(load(part, place, lanes), lanes=lanes) for place in places]
        sums = steps.folded(operator.add, vectors, lanes)
        for k in range(start, min(start + count, most + 1), keys):
            row = (i + index(k // keys)) * index(KEYS) + j
            picked = [index(k - start + b) for b in range(keys)]
            value = tirx.Shuffle([sums], picked) if count > 1 else sums
            steps.statements.append(store(tile.scores, value, row, keys))
    return steps.statements
