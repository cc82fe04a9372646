"""The memory of a task: some queries, and what they have of the keys until now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ..loops.bfloat16_words import WIDE
from .tile_shape import KEYS, TileShape
from .vector_terms import index, real, store

#: Where TVM's kernels start the maximum of scores: keys below it weigh nothing.
LOWEST = -5e4


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

    def started(self, total: Any) -> Any:
        """Return the start of sums.

        Args:
            total: The start of the sum of weights; TVM's kernels start with 1.
        """
        lanes = self.shape.lanes
        return loop("i", self.shape.vectors, index(0), lambda i: seq([
            tirx.BufferStore(self.top, real(LOWEST), [i]),
            tirx.BufferStore(self.total, total, [i]),
            loop("c", self.shape.chunks, index(0), lambda c: store(
                self.sums, real(0.0, lanes), i * index(self.shape.features) + c * index(lanes),
                lanes)),
        ]))  # fmt: skip
