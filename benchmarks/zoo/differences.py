"""Differences between the outputs of two runtimes, and what rounding explains of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: The largest difference of float32 outputs to the reference.
TOLERANCE = 1e-4
#: Roundings of its own dtype by which an output of a half type may differ.
ROUNDINGS = 2
#: Factor on differences of references: two runtimes may be off in opposite directions.
SLACK = 2.0


def tolerance(outputs: Sequence[Any]) -> float:
    """Return the tolerance of outputs: `TOLERANCE`, or that of the coarsest half type."""
    halves = [a.dtype for a in outputs if a.dtype.name in ("float16", "bfloat16")]
    roundings = [2.0**-11 if dtype.name == "float16" else 2.0**-8 for dtype in halves]
    return max([TOLERANCE, *(ROUNDINGS * r for r in roundings)])


def is_right(row: Mapping[str, Any]) -> bool:
    """Return whether a row's outputs are within its tolerance, or within what references are."""
    allowed = max(row.get("tolerance", TOLERANCE), SLACK * row["spread"],
                  SLACK * row.get("second", 0.0))  # fmt: skip
    return not row["failure"] and max(row["differences"], default=np.inf) <= allowed


def difference(expected: Sequence[Any], got: Sequence[Any]) -> float:
    """Return the largest difference relative to the largest value of an output."""
    if len(expected) != len(got):
        return float("inf")
    return max((_difference(a, b) for a, b in zip(expected, got, strict=True)), default=0.0)


def _difference(expected: Any, got: Any) -> float:
    if expected.shape != got.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    a, b = expected.astype("float64"), got.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.abs(a[np.isfinite(a)])
    error = np.where(same, 0.0, np.abs(a - b))
    scale = max(float(finite.max(initial=0.0)), 1e-30)
    return float(np.nan_to_num(error, nan=np.inf, posinf=np.inf).max()) / scale
