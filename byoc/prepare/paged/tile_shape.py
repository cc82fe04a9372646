"""Sizes of a tile: some vectors of queries that share the keys that they see, and these keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Keys of a tile. Sums are corrected once for each tile, and the last one has surplus keys.
KEYS = 32
#: Reading a vector of keys, which may have to be widened, costs as much as this many of queries.
_WIDENED = 2


@dataclass(frozen=True)
class TileShape:
    """The sizes of a tile, and how many of its elements are computed at once.

    Attributes:
        vectors: Vectors of queries: the heads of a group, of one or several rows.
        features: The elements of a vector.
        lanes: The elements that are computed at once; a divisor of the features.
        accumulators: The vectors of sums that registers hold.
    """

    vectors: int
    features: int
    lanes: int
    accumulators: int

    @property
    def chunks(self) -> int:
        """The vectors of a query."""
        return self.features // self.lanes

    @property
    def once(self) -> bool:
        """Whether a tile reads each key once, so that its time is that of reading memory."""
        return self.score_block[0] == self.vectors

    @property
    def score_block(self) -> tuple[int, int]:
        """How many queries and keys are multiplied at once."""
        powers = (1 << k for k in range(KEYS.bit_length()))
        return self._block(k for k in powers if k <= self.lanes)

    @property
    def value_block(self) -> tuple[int, int]:
        """How many queries, and vectors of features, are summed at once."""
        return self._block(_divisors(self.chunks))

    def _block(self, sizes: Iterable[int]) -> tuple[int, int]:
        """The block with the least reads for each product of vectors."""
        return min(
            ((a, b) for b in sizes for a in _divisors(self.vectors) if a * b <= self.accumulators),
            key=lambda block: ((block[0] + _WIDENED * block[1]) / (block[0] * block[1]), block),
        )


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
