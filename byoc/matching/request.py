"""What the user asks of a dispatch, for one module: classes, what is forced, what is too low."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ...layout.graph.relax_graph import Op
from ..backend.match import Match
from .force import Forced


@dataclass(frozen=True)
class Lost:
    """What failed: ops that a backend cannot have, and ops that it cannot have together."""

    ops: Mapping[str, frozenset[Op]] = field(default_factory=dict)
    together: tuple[tuple[str, frozenset[Op]], ...] = ()

    def of(self, backend: str) -> frozenset[Op]:
        return self.ops.get(backend, frozenset())

    def allows(self, m: Match) -> bool:
        if not self.of(m.backend).isdisjoint(m.ops):
            return False
        return not any(b == m.backend and ops.issubset(m.ops) for b, ops in self.together)

    def without(self, backend: str, ops: Collection[Op]) -> Lost:
        return replace(self, ops={**self.ops, backend: self.of(backend) | frozenset(ops)})

    def apart(self, backend: str, ops: Collection[Op]) -> Lost:
        return replace(self, together=(*self.together, (backend, frozenset(ops))))


@dataclass(frozen=True)
class Asked:
    """``classes`` of priority by backend; those of ``below`` only take what is forced to them.

    ``lost`` is what backends cannot have, whatever is asked.
    """

    classes: Mapping[str, int]
    forced: Mapping[Op, Forced]
    below: Collection[str] = ()
    lost: Lost = field(default_factory=Lost)

    @property
    def must(self) -> list[Op]:
        """Ops that some backend has to take."""
        return [op for op, f in self.forced.items() if f.backend != "tvm"]

    def usable(self, m: Match) -> bool:
        if m.backend in self.below and not any(op in self.forced for op in m.ops):
            return False
        if not self.lost.allows(m):
            return False
        return all(op not in self.forced or self.forced[op].allows(m) for op in m.ops)
