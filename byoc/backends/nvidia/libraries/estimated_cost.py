"""The estimated costs of a region, and of a conversion."""

from __future__ import annotations

from ....backend.flops import moved
from ....backend.region import Region, Tensor
from .dtypes import HALVES

#: Microseconds for a launch; bytes that memory moves in a microsecond.
LAUNCH, BANDWIDTH = 4.0, 2e6


def cost(region: Region) -> float:
    """Microseconds for launches, and for the bytes read and written.

    Tensor cores read channels last, so a convolution of halves with channels first costs two
    transposes more.
    """
    kernels = 3 if _is_transposed(region) else 1
    return kernels * (LAUNCH + moved(region) / BANDWIDTH)


def conversion(moved: float) -> float:
    """Microseconds for the launch that converts a layout, and for its bytes."""
    return LAUNCH + moved / BANDWIDTH


def _is_transposed(region: Region) -> bool:
    return any(
        str(call.attrs.get("data_layout") or "C")[-1] != "C"
        and any(isinstance(o, Tensor) and o.dtype in HALVES for o in call.operands)
        for call in region.calls
    )
