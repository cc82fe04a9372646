"""Differences between the outputs of two runtimes, and what rounding explains of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: The largest difference of float32 outputs to the reference.
TOLERANCE = 1e-4
#: Roundings of its own dtype by which an output of a half type may differ.
ROUNDINGS = 2
#: Factor on the spread, which few seeds find.
SLACK = 2.0


def tolerance(outputs: Sequence[Any]) -> float:
    """Return the tolerance of outputs: `TOLERANCE`, or that of the coarsest half type."""
    halves = [a.dtype for a in outputs if a.dtype.name in ("float16", "bfloat16")]
    roundings = [2.0**-11 if dtype.name == "float16" else 2.0**-8 for dtype in halves]
    return max([TOLERANCE, *(ROUNDINGS * r for r in roundings)])


def verdict(row: Mapping[str, Any]) -> str:
    """Return ``right``, ``rounding`` or ``wrong``.

    A row is right if at each set of inputs its outputs are within the tolerance of a runtime's, the
    reference's or the second one's. It is decided by rounding if they are not, but
    moving the weights by a few roundings moves the reference's outputs at least half as far.
    """
    if row["failure"] or not row["differences"]:
        return "wrong"
    if nearest(row) <= row.get("tolerance", TOLERANCE):
        return "right"
    by_rounding = max(row["differences"]) <= SLACK * row["spread"] < np.inf
    return "rounding" if by_rounding else "wrong"


def nearest(row: Mapping[str, Any]) -> float:
    """Return the largest difference to the nearer runtime, of all sets of inputs."""
    pairs = zip(row["differences"], row.get("to_second", ()), strict=False)
    both = [min(pair) for pair in pairs]
    return max([*both, *row["differences"][len(both) :]], default=np.inf)


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
