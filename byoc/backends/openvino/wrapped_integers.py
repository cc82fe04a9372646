"""Conditions on integers of 8 and 16 bits, which wrap around in TVM and in ONNX Runtime.

OpenVINO 2026.4 keeps the nearest number of their range in arithmetic, so that -(-128) of int8 is
127. Inside of a file, 16 bits are 32, also after a cast.
"""

from __future__ import annotations

import numpy as np

from ...patterns.pattern_node import Node
from ...patterns.value_bounds import bounds

#: Dtypes whose results wrap around, and operators that may leave their range.
_WRAPPED = ("int8", "uint8", "int16", "uint16")
_LEAVING = frozenset(f"relax.{n}" for n in (
    "add", "subtract", "multiply", "divide", "floor_divide", "power", "square", "abs", "negative",
    "left_shift", "sum", "prod", "mean", "cumsum", "cumprod", "matmul", "einsum",
    "scatter_elements", "scatter_nd"))  # fmt: skip
#: Reductions of scatters that stay in the range.
_CHOICES = ("update", "min", "max")


def saturated(of: Node) -> str | None:
    """Why OpenVINO may have the nearest number of a range where TVM wraps around."""
    dtype = of.result.dtype
    if dtype not in _WRAPPED or not (of.info.name in _LEAVING or _keeps_wide(of)):
        return None
    if str((of.info.attrs or {}).get("reduction", "")) in _CHOICES:
        return None
    return f"{of.info.name} is of {dtype}, which OpenVINO keeps in its range instead of wrapping"


def _keeps_wide(of: Node) -> bool:
    """Whether a result of 16 bits may have others, which OpenVINO leaves there."""
    data, dtype = of.operand(0), of.result.dtype
    if data is None or dtype not in ("int16", "uint16") or "int" not in data.dtype:
        return False
    if of.info.name == "relax.astype":
        ends, own, goal = bounds(data, of.infos), np.iinfo(data.dtype), np.iinfo(dtype)
        low, high = ends or (own.min, own.max)
        return bool(low < goal.min or high > goal.max)
    return of.info.name == "relax.bitwise_not" and dtype == "uint16"
