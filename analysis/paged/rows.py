"""Parts of the definitions of attention over sequences of different lengths.

Vectors ``indptr`` split rows into sequences: those of sequence b are ``indptr[b]`` up to
``indptr[b + 1]``. Tensors here have an axis for all rows of queries and one for columns, the keys
that a sequence may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx
from tvm.relax import op

from ..composites.positions.rope_scaling import RELAX, WIDE, RopeScaling

_KIND = "int32"


def number(value: int) -> Any:
    return relax.const(value, _KIND)


def size(extent: Any) -> Any:
    """A size as a number of the dtype of indices."""
    return (
        number(int(extent)) if isinstance(extent, (int, tirx.IntImm)) else tirx.Cast(_KIND, extent)
    )


def counted(extent: Any) -> Any:
    """The numbers below a size."""
    return op.astype(op.arange(0, extent, 1, "int64"), _KIND)


@dataclass(frozen=True)
class Sequences:
    """The sequence of each row, as a column (rows, 1), and the place of the row in it."""

    sequence: Any
    row: Any
    length: Any

    @classmethod
    def of(cls, indptr: Any, rows: Any) -> Sequences:
        """Return the sequences of a number of rows."""
        count = indptr.ty.shape[0] - 1
        place = op.expand_dims(counted(rows), [1])
        ends = op.expand_dims(op.take(indptr, op.add(counted(count), number(1)), 0), [0])
        before = op.sum(op.astype(op.less_equal(ends, place), _KIND), [1], keepdims=True)
        sequence = op.minimum(before, size(count - 1))
        start = op.take(indptr, sequence, 0)
        end = op.take(indptr, op.add(sequence, number(1)), 0)
        return cls(sequence, op.subtract(place, start), op.subtract(end, start))

    @classmethod
    def single(cls, rows: Any) -> Sequences:
        """Return sequences of one row each."""
        place = op.expand_dims(counted(rows), [1])
        return cls(place, op.multiply(place, number(0)), number(1))

    def first(self, indptr: Any) -> Any:
        return op.take(indptr, self.sequence, 0)

    def last(self, indptr: Any) -> Any:
        return op.take(indptr, op.add(self.sequence, number(1)), 0)


@dataclass(frozen=True)
class Heads:
    """The heads of queries, their groups, the number of features, and the dtype."""

    heads: int
    groups: int
    features: int
    dtype: str

    @classmethod
    def of(cls, query: Any, groups: Any) -> Heads:
        """Return those of queries (rows, heads, features), with a number of heads of keys.

        Raises:
            ValueError: A number is symbolic, or the heads are not a multiple of the groups.
        """
        numbers = (*list(query.ty.shape)[1:], groups)
        if len(numbers) != 3 or not all(isinstance(n, tirx.IntImm) for n in numbers):
            raise ValueError(f"attention: queries {query.ty} for {groups} heads of keys")
        heads, features, groups = map(int, numbers)
        if heads % groups or features % 2:
            raise ValueError(
                f"attention: {heads} heads of {features} features for {groups} of keys"
            )
        return cls(heads, groups, features, str(query.ty.dtype))

    def turned(
        self, x: Any, positions: Any, mode: Any, scale: Any, theta: Any, scaling: RopeScaling
    ) -> Any:
        """Return vectors ``x[.., d]`` with rotary embeddings, if the mode is 1.

        The positions have the axes of x, with extent 1 where they do not depend on one.
        """
        half, wide = self.features // 2, op.astype(x, WIDE)
        feature = op.astype(op.arange(0, self.features, 1, "int64"), WIDE)
        count = relax.const(self.features, WIDE)
        pair = op.floor_mod(op.multiply(feature, relax.const(2, WIDE)), count)
        powers = op.power(theta, op.divide(pair, count))
        places = op.multiply(op.astype(positions, WIDE), scale)
        frequency = scaling.frequency(powers, feature, RELAX)
        angles = op.divide(places, powers) if frequency is None else op.multiply(places, frequency)
        low, high = (
            op.strided_slice(wide, [-1], [a], [b]) for a, b in ((0, half), (half, self.features))
        )
        partner = op.concat([op.negative(high), low], axis=-1)
        cos, sin = op.cos(angles), op.sin(angles)
        if scaling.magnitude is not None:
            cos, sin = (op.multiply(x, RELAX.real(scaling.magnitude)) for x in (cos, sin))
        out = op.add(op.multiply(cos, wide), op.multiply(sin, partner))
        return op.where(op.equal(mode, number(1)), op.astype(out, self.dtype), x)

    def weighted(
        self, query: Any, keys: Any, values: Any, visible: Any, scale: Any
    ) -> tuple[Any, Any]:
        """Return attention, and the logarithm to base 2 of the sum of exponentials of the scores.

        Args:
            query: (rows, heads, features).
            keys: (rows, columns, groups, features).
            values: (rows, columns, groups, features).
            visible: (rows, columns): whether the row sees the column.
            scale: The factor of scores, without dimensions.
        """
        times = self.heads // self.groups
        k, v = (op.astype(op.repeat(x, times, axis=2), WIDE) for x in (keys, values))
        wide = op.expand_dims(op.astype(query, WIDE), [1])
        scores = op.multiply(op.sum(op.multiply(wide, k), [3]), scale)
        least = relax.const(tirx.min_value(WIDE).value, WIDE)
        scores = op.where(op.expand_dims(visible, [2]), scores, least)
        largest = op.max(scores, [1], keepdims=True)
        exponentials = op.exp(op.subtract(scores, largest))
        total = op.sum(exponentials, [1])
        mixed = op.sum(op.multiply(op.expand_dims(exponentials, [3]), v), [1])
        out = op.divide(mixed, op.expand_dims(total, [2]))
        merged = op.add(op.log(total), op.squeeze(largest, [1]))
        merged = op.divide(merged, op.log(relax.const(2, WIDE)))
        return op.astype(out, self.dtype), merged
