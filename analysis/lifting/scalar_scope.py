"""The values of scalar variables, valid while what they were read from is unchanged."""

from __future__ import annotations

from typing import Any

from ..terms.term import Term
from ..terms.traversal import tensors
from .effects.effects import Effects
from .tir.node import NodeDict
from .tir.unliftable import Unliftable


class ScalarScope:
    """Values of scalar variables.

    A value is over the state before the frame that binds it. An inner frame may use it only if
    nothing that it reads was written in between; otherwise `Unliftable` is raised.
    """

    def __init__(self, frames: list[Effects]) -> None:
        self.frames = frames
        self._bound = NodeDict[tuple[Term, int]]()

    def __setitem__(self, var: Any, value: Term) -> None:
        self._bound[var] = value, len(self.frames) - 1

    def __contains__(self, var: Any) -> bool:
        return var in self._bound

    def __getitem__(self, var: Any) -> Term:
        value = self.get(var)
        if value is None:
            raise KeyError(var)
        return value

    def get(self, var: Any) -> Term | None:
        """Return the current value, or None if the variable is not bound."""
        bound = self._bound.get(var)
        if bound is None:
            return None
        value, depth = bound
        read = tensors(value)
        if read:
            if any(not read.isdisjoint(f.writes) for f in self.frames[depth:-1]):
                raise Unliftable("a value is used after its source has changed", var.name)
            for effects in self.frames[depth + 1 :]:
                effects.outer |= read
        return value

    def items(self) -> list[tuple[Any, Term]]:
        """Return all variables with their bound values."""
        return [(v, value) for v, (value, _) in self._bound.items()]

    def values(self) -> list[Term]:
        """Return all bound values."""
        return [value for value, _ in self._bound.values()]
