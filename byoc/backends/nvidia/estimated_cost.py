"""The estimated cost of a region."""

from __future__ import annotations

from ...backend.flops import moved
from ...backend.region import Region

#: Microseconds for a launch; bytes that memory moves in a microsecond.
LAUNCH, BANDWIDTH = 4.0, 2e6


def cost(region: Region) -> float:
    """Microseconds for a launch, and for the bytes read and written."""
    return LAUNCH + moved(region) / BANDWIDTH
