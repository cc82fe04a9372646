"""What the user asks of a dispatch, for one module: classes, what is forced, what is too low."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..layout.graph import Op
from .choose import Match
from .force import Forced


@dataclass(frozen=True)
class Asked:
    """``classes`` of priority by backend; those of ``below`` only take what is forced to them."""

    classes: Mapping[str, int]
    forced: Mapping[Op, Forced]
    below: Collection[str] = ()

    @property
    def must(self) -> list[Op]:
        """Ops that some backend has to take."""
        return [op for op, f in self.forced.items() if f.backend != "tvm"]

    def usable(self, m: Match) -> bool:
        if m.backend in self.below and not any(op in self.forced for op in m.ops):
            return False
        return all(op not in self.forced or self.forced[op].allows(m) for op in m.ops)
