"""The estimated costs of a region, and of a conversion, by the rates of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ....backend.backend import Backend
from ....backend.region import Region, Tensor
from ....calibration.device_rates import DeviceRates
from .dtypes import FLOAT8, HALVES

#: Those of an H100, for GPUs that are not calibrated.
RATES = DeviceRates(4.0, 2e6, {"float16": 3.3e8, "bfloat16": 3.3e8, "float32": 2.5e7,
                               "int8": 6.6e8, FLOAT8: 6.6e8})  # fmt: skip


def cost(region: Region, rates: DeviceRates = RATES) -> float:
    """Microseconds for launches, for the bytes read and written, and for multiplications.

    Tensor cores read channels last, so a convolution of halves with channels first costs two
    transposes more.
    """
    return rates.fused(region) + (2 * rates.moving(region) if _is_transposed(region) else 0.0)


def conversion(moved: float, rates: DeviceRates = RATES) -> float:
    """Microseconds for the launch that converts a layout, and for its bytes."""
    return rates.streamed(moved)


def with_rates(backends: Sequence[Backend], rates: DeviceRates) -> list[Backend]:
    """The backends, those with costs of this file by the rates of another GPU."""
    return [
        replace(b, cost=partial(cost, rates=rates), conversion=partial(conversion, rates=rates))
        if b.cost is cost
        else b
        for b in backends
    ]


def _is_transposed(region: Region) -> bool:
    return any(
        str(call.attrs.get("data_layout") or "C")[-1] != "C"
        and any(isinstance(o, Tensor) and o.dtype in HALVES for o in call.operands)
        for call in region.calls
    )
