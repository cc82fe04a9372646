"""A match: operators that satisfy a pattern."""

from __future__ import annotations

from dataclasses import dataclass

from ...layout.graph.relax_graph import Op


@dataclass(frozen=True)
class Match:
    """Operators that a backend could take as one region; ``cost`` is in microseconds."""

    backend: str
    pattern: str
    ops: tuple[Op, ...]
    cost: float
