"""What a region costs where nothing was measured."""

from __future__ import annotations

from math import prod

from ...backend.region import Region, Tensor
from .dtypes import DLPACK

#: Microseconds of a launch, bytes that memory moves in one.
LAUNCH, BANDWIDTH = 4.0, 2e6


def cost(region: Region) -> float:
    """Microseconds for a launch, and for what is read and written."""
    return LAUNCH + sum(map(_bytes, (*region.inputs, region.result))) / BANDWIDTH


def _bytes(t: Tensor) -> float:
    return DLPACK[t.dtype][1] / 8 * prod(e if isinstance(e, int) else 64 for e in t.shape)
