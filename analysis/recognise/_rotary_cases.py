"""Cases of the recogniser of rotary position embeddings."""

from __future__ import annotations

from . import Matches, Refuses


def matched(op: str) -> list[Matches]:
    """Calls that must be recognised."""
    return []


REFUSED: list[Refuses] = []
