"""Which matches may be chosen: forced operators, priority classes, exclusions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ...layout.graph.relax_graph import Op
from ..backend.match import Match
from .force import Forced


@dataclass(frozen=True)
class ExcludedMatches:
    """What failed: operators that a backend cannot take, and chains that it cannot take whole."""

    ops: Mapping[str, frozenset[Op]] = field(default_factory=dict)
    chains: tuple[tuple[str, frozenset[Op]], ...] = ()

    def of(self, backend: str) -> frozenset[Op]:
        return self.ops.get(backend, frozenset())

    def allows(self, match: Match) -> bool:
        if not self.of(match.backend).isdisjoint(match.ops):
            return False
        return not any(b == match.backend and ops.issubset(match.ops) for b, ops in self.chains)

    def without(self, backend: str, ops: Collection[Op]) -> ExcludedMatches:
        return replace(self, ops={**self.ops, backend: self.of(backend) | frozenset(ops)})

    def without_chain(self, backend: str, ops: Collection[Op]) -> ExcludedMatches:
        return replace(self, chains=(*self.chains, (backend, frozenset(ops))))


@dataclass(frozen=True)
class MatchRules:
    """The rules of one dispatch.

    Attributes:
        classes: The priority class of each backend.
        forced: Where operators must go.
        below: Backends in a class below TVM's: they take forced operators only.
        excluded: The matches that failed.
    """

    classes: Mapping[str, int]
    forced: Mapping[Op, Forced]
    below: Collection[str] = ()
    excluded: ExcludedMatches = field(default_factory=ExcludedMatches)

    @property
    def must(self) -> list[Op]:
        """Operators that some backend has to take."""
        return [op for op, f in self.forced.items() if f.backend != "tvm"]

    def usable(self, match: Match) -> bool:
        if match.backend in self.below and not any(op in self.forced for op in match.ops):
            return False
        if not self.excluded.allows(match):
            return False
        return all(op not in self.forced or self.forced[op].allows(match) for op in match.ops)
