"""Spans: ranges of positive extents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The multiples of ``multiple`` in ``low … high``; ``high`` is None if unbounded."""

    low: int = 1
    high: int | None = None
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.low < 1 or (self.high is not None and self.high < self.low) or self.multiple < 1:
            raise ValueError(
                f"a span from {self.low} to {self.high}, multiples of {self.multiple}: expected "
                "1 <= low <= high and multiple >= 1"
            )
