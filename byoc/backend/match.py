"""What a backend could take as one region."""

from __future__ import annotations

from dataclasses import dataclass

from ...layout.graph.relax_graph import Op


@dataclass(frozen=True)
class Match:
    """Ops that a backend could take as one region. ``cost`` in microseconds."""

    backend: str
    pattern: str
    ops: tuple[Op, ...]
    cost: float
