"""Parts of the definitions of rotary position embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.relax import op

STYLES = ("neox", "gptj")


def places_of(positions: Any, count: Any) -> Any:
    """The positions as a vector."""
    if len(positions.ty.shape):
        return positions
    dtype = str(positions.ty.dtype)
    first = op.subtract(positions, count if dtype == "int64" else tirx.Cast(dtype, count))
    return op.add(op.arange(0, count, 1, dtype), first)


def split_heads(name: str, data: Any, heads: Sequence[int], axis: int) -> list[Any]:
    """Return the queries, keys and values along an axis; raise ``ValueError`` for other counts."""
    total, parts, start = data.ty.shape[axis], [], 0
    if len(heads) != 3 or min(heads) < 1 or int(total) != sum(heads):
        raise ValueError(f"{name}: heads {list(heads)}, expected three counts with sum {total}")
    for count in heads:
        parts.append(op.strided_slice(data, [axis], [start], [start + count]))
        start += count
    return parts


def check_turned(
    name: str, data: Any, positions: Any, base: float, rotary_dim: int, style: str
) -> None:
    """Raise ``ValueError`` unless these are operands and attributes of the operator ``name``."""
    shape = data.ty.shape
    if len(shape) < 3 or len(positions.ty.shape) > 1 or "int" not in str(positions.ty.dtype):
        raise ValueError(f"{name}: data {data.ty} at positions {positions.ty}")
    if rotary_dim < 2 or rotary_dim % 2 or rotary_dim > int(shape[len(shape) - 1]):
        raise ValueError(f"{name}: rotary_dim {rotary_dim} of {data.ty}, expected an even number")
    if style not in STYLES or base <= 0:
        raise ValueError(f"{name}: style {style}, base {base}")


def turned_heads(
    name: str, data: Any, heads: Sequence[int], turned: Callable[[Any], Any]
) -> tuple[Any, Any, Any] | Any:
    """Return turned queries, turned keys and values; one result if ``heads`` is empty."""
    if not heads:
        return turned(data)
    query, key, value = split_heads(name, data, heads, len(data.ty.shape) - 2)
    return turned(query), turned(key), value


@dataclass(frozen=True)
class Features:
    """The last axis of the data: its position, its extent, how much of it is turned, and how."""

    axis: int
    extent: int
    size: int
    style: str

    def turned(self, x: Any, cos: Any, sin: Any, dtype: str, out_dtype: str) -> Any:
        """The features with pairs turned."""
        part = self.slice(x, 0, self.size)
        pairs = self.halves(part) if self.style == "neox" else self.neighbours(part)
        straight = op.multiply(cos, op.astype(part, dtype))
        out = op.add(straight, op.multiply(sin, op.astype(pairs, dtype)))
        return self.joined(op.astype(out, out_dtype), x)

    def slice(self, x: Any, start: int, stop: int, step: int = 1) -> Any:
        """Some features."""
        if (start, stop, step) == (0, self.extent, 1):
            return x
        return op.strided_slice(x, [self.axis], [start], [stop], [step])

    def joined(self, turned: Any, x: Any) -> Any:
        """The turned features, then the others of x."""
        if self.size == self.extent:
            return turned
        return op.concat([turned, self.slice(x, self.size, self.extent)], axis=self.axis)

    def halves(self, x: Any) -> Any:
        """``-x[d + size / 2]`` in the first half, ``x[d - size / 2]`` in the second."""
        half = self.size // 2
        first, second = self.slice(x, 0, half), self.slice(x, half, self.size)
        return op.concat([op.negative(second), first], axis=self.axis)

    def neighbours(self, x: Any) -> Any:
        """``-x[d + 1]`` for even d, ``x[d - 1]`` for odd d."""
        even, odd = (op.repeat(self.slice(x, k, self.size, 2), 2, self.axis) for k in (0, 1))
        place = op.arange(0, self.size, 1, "int64")
        parity = op.floor_mod(place, tirx.const(2, "int64"))
        return op.where(op.equal(parity, tirx.const(0, "int64")), op.negative(odd), even)
