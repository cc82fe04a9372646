"""Bounds and divisors of symbolic sizes.

n in 8 … 128, a multiple of 8:    4 * n in 32 … 512, a multiple of 32;    n // 4 in 2 … 32
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from ....analysis.blocks.tir import dtype_of, integer, mentions, static
from ....analysis.lifting.tir.node import NodeDict
from ...dims.span import Span

#: Assumed upper end of an unbounded size, so that flat indices do not overflow.
END = 2**31 - 1
#: Bounds above this are treated as unbounded.
HUGE = 2**24


@dataclass(frozen=True)
class SizeBounds:
    """A size in ``low … high`` (None: unbounded) that ``multiple`` divides."""

    low: int = 0
    high: int | None = None
    multiple: int = 1

    def within(self, most: int) -> int:
        """Return the size in the range that is nearest to ``most``."""
        return max(self.low, most if self.high is None else min(self.high, most))

    def until(self, *sizes: int) -> list[int]:
        """Return tile sizes up to the first one that provably divides the size."""
        chosen: list[int] = []
        for size in sizes:
            if not chosen or self.multiple % chosen[-1]:
                chosen.append(size)
        return chosen


UNKNOWN = SizeBounds()


class SymbolicSizes:
    """Bounds of expressions over the symbols of a function, given the spans of these."""

    def __init__(self, *spans: tuple[Any, Span]) -> None:
        self.spans: NodeDict[Span] = NodeDict()
        self.analyzer = tvm.sym.Analyzer()
        for symbol, span in spans:
            self.spans[symbol] = span
            # model a known divisor as a product with a fresh symbol
            count = tirx.Var("count", dtype_of(symbol))
            low, high = -(-span.low // span.multiple), (span.high or END) // span.multiple
            self.analyzer.bind(count, _range(low, max(low, high), symbol))
            self.analyzer.bind(symbol, count * integer(span.multiple, symbol))

    def of(self, extent: Any) -> SizeBounds:
        """Return the bounds of an extent; unknown if it contains other variables."""
        value = static(extent)
        if value is not None:
            return SizeBounds(value, value, max(value, 1))
        if any(v not in self.spans for v, _ in mentions(extent).items()):
            return UNKNOWN
        simple = self.analyzer.simplify(extent)
        bound = self.analyzer.const_int_bound(simple)
        divided = self.analyzer.modular_set(simple)
        high = int(bound.max_value)
        multiple = int(divided.coeff) if int(divided.base) == 0 else 1
        return SizeBounds(
            max(int(bound.min_value), 0), None if high > HUGE else high, max(multiple, 1)
        )

    def ranges(self) -> Iterator[tuple[Any, Any]]:
        """Yield the symbols with their ranges, for an analyzer."""
        for symbol, span in self.spans.items():
            yield symbol, _range(span.low, span.high or END, symbol)


#: No bounds.
UNBOUNDED = SymbolicSizes()


def _range(low: int, high: int, like: Any) -> Any:
    return tvm.ir.Range.from_min_extent(integer(low, like), integer(high - low + 1, like))
