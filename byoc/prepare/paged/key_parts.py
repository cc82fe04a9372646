"""Split the keys of a row among threads, where there are fewer tasks than these keep busy.

    part p of P of a row with keys [begin, end):  begin + p (end - begin) / P up to the next part

Each part keeps its largest score, its sum of weights and its weighted values. They are combined as
keys of a softmax that is corrected as they come in (Dao et al., Flash-Decoding, 2023):

    m = max(m_p);  sum = sum over p of 2^(m_p - m) sum_p;  o = sum over p of 2^(m_p - m) o_p
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ..loops.bfloat16_words import WIDE
from .query_tile import QueryTile
from .tile_shape import KEYS, TileShape
from .vector_terms import INDEX, Steps, index, load, real, spread, store

#: Tasks for each thread, so that threads end at about the same time.
TASKS = 4
#: The fewest keys of a part, on average: a part loads its queries, and is combined.
LEAST = 8 * KEYS


@dataclass(frozen=True)
class KeyParts:
    """The number of parts, and what they keep.

    Attributes:
        shape: The sizes of a tile of queries.
        cores: The threads.
        count: The number of parts of each task, a variable.
        top: (parts, vectors): the largest score.
        total: (parts, vectors): the sum of weights.
        sums: (parts, vectors, features): the weighted values.
    """

    shape: TileShape
    cores: int
    count: Any
    top: Any
    total: Any
    sums: Any

    @classmethod
    def of(cls, shape: TileShape, cores: int) -> KeyParts | None:
        """Return memory for the parts of some threads; None for a single one."""
        if cores < 2:
            return None
        vectors = 2 * TASKS * cores * shape.vectors  # more tasks than this are not split
        sizes = {"top": vectors, "total": vectors, "sums": vectors * shape.features}
        return cls(shape, cores, tirx.Var("parts", INDEX), *(
            tirx.decl_buffer([n], WIDE, name=f"part_{name}") for name, n in sizes.items()
        ))  # fmt: skip

    def declared(self, tasks: Any, keys: Any) -> list[Any]:
        """Return the statements that choose the number of parts.

        Args:
            tasks: The number of tasks.
            keys: The most keys of all sequences together.
        """
        most = index(TASKS * self.cores)
        wanted = tirx.FloorDiv(most + tasks - index(1), tirx.Max(tasks, index(1)))
        parts = tirx.Max(tirx.Min(wanted, tirx.FloorDiv(keys, index(LEAST))), index(1))
        return [tirx.Bind(self.count, parts),
                *(tirx.AllocBuffer(b) for b in (self.top, self.total, self.sums))]  # fmt: skip

    def bounds(self, part: Any, begin: Any, end: Any) -> tuple[Any, Any]:
        """Return the first tile of keys of a part, and the one after its last."""
        tiles = tirx.Max(end - begin, index(0))
        first, last = (begin + tirx.FloorDiv(tiles * p, self.count) for p in (part, part + 1))
        return first, last

    def saved(self, tile: QueryTile, place: Any) -> Any:
        """Return the statement that keeps what a part has computed.

        Args:
            tile: The memory of the part.
            place: The number of the part among those of all tasks.
        """
        return self._each(place, lambda i, at: [
            store(self.top, load(tile.top, i), at), store(self.total, load(tile.total, i), at),
        ], lambda i, at, c: store(self.sums, load(tile.sums, i + c, self.shape.lanes), at + c,
                                  self.shape.lanes))  # fmt: skip

    def combined(self, tile: QueryTile, task: Any) -> Any:
        """Return the statement that combines the parts of a task.

        Args:
            tile: Memory with the start of sums, and a total of 0.
            task: The number of the task.
        """
        lanes = self.shape.lanes

        def factors(i: Any, at: Any) -> list[Any]:
            steps = Steps()
            top, other = (steps.bind(load(*p)) for p in ((tile.top, i), (self.top, at)))
            new = steps.keep(tirx.Max(top, other))
            own, theirs = (steps.exp2(steps.keep(x - new), 1) for x in (top, other))
            total = load(tile.total, i) * own + load(self.total, at) * theirs
            return [*steps.statements, store(tile.total, total, i), store(tile.top, new, i),
                    store(tile.factor, own, i), store(tile.scores, theirs, i)]  # fmt: skip

        def chunk(i: Any, at: Any, c: Any) -> Any:
            vector = tirx.FloorDiv(i, index(self.shape.features))
            own, theirs = (spread(load(b, vector), lanes) for b in (tile.factor, tile.scores))
            sums = load(tile.sums, i + c, lanes) * own + load(self.sums, at + c, lanes) * theirs
            return store(tile.sums, sums, i + c, lanes)

        return loop("p", self.count, index(0), lambda p: self._each(
            task * self.count + p, factors, chunk))  # fmt: skip

    def _each(self, place: Any, scalars: Any, chunk: Any) -> Any:
        """Loops over the vectors of a part, and over those of their features."""
        features, lanes = index(self.shape.features), index(self.shape.lanes)

        def vector(i: Any) -> Any:
            at = tirx.Var("at", INDEX)
            return seq([
                tirx.Bind(at, place * index(self.shape.vectors) + i), *scalars(i, at),
                loop("c", self.shape.chunks, index(0), lambda c: chunk(
                    i * features, at * features, c * lanes)),
            ])  # fmt: skip

        return loop("i", self.shape.vectors, index(0), vector)


def start_of_total(part: Any) -> Any:
    """Return the start of a sum of weights: 1 in the first part, as TVM's kernels have it."""
    return tirx.Select(tirx.EQ(part, index(0)), real(1.0), real(0.0))
