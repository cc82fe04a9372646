"""What scheduling gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scheduled:
    """A PrimFunc that computes the same, up to the order of sums, and of largest and smallest where
    there are NaN among them (what TVM gives there depends on the order too).

    ``rules`` are those that wrote its loop nests, in their order. ``reasons`` say which stages are
    as they were, and why.
    """

    func: Any
    rules: tuple[str, ...]
    reasons: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rules in one text: the name of this schedule."""
        return "+".join(self.rules)

    def __repr__(self) -> str:
        left = f", left: {'; '.join(self.reasons)}" if self.reasons else ""
        return f"Scheduled({self.rule}{left})"
