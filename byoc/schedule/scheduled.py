"""The result of scheduling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The rule of convolutions by minimal filtering, which round otherwise than direct ones.
WINOGRAD = "winograd"


@dataclass(frozen=True)
class Scheduled:
    """A scheduled PrimFunc, equal to the original up to the order of sums.

    Minima and maxima over NaN may also differ; their result in TVM depends on the order as well.
    ``rules`` emitted the loop nests, in order. ``reasons`` says which blocks keep their loops, and
    why.
    """

    func: Any
    rules: tuple[str, ...]
    reasons: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rules, joined: the name of this schedule."""
        return "+".join(self.rules)

    def __repr__(self) -> str:
        suffix = f", left: {'; '.join(self.reasons)}" if self.reasons else ""
        return f"Scheduled({self.rule}{suffix})"
