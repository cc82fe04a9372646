"""Seeded inputs, and the comparison of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (numpy knows bfloat16)
import numpy as np
import numpy.typing as npt

from .subject import Buffer

Array = npt.NDArray[Any]
#: The allowed difference, as parts of the element and of the largest one; integers must be equal.
TOLERANCE = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 4e-3),
    "bfloat16": (4e-2, 2e-2),
}


def drawn(buffers: Sequence[Buffer], seed: int = 0, distinct: int | None = None) -> list[Array]:
    """Values of these buffers: integers are 0 or 1, as they may be indices.

    At most ``distinct`` values of each are drawn, and repeated.
    """
    rng = np.random.default_rng(seed)
    out: list[Array] = []
    for buffer in buffers:
        real = "float" in buffer.dtype
        count = math.prod(buffer.shape)
        shape = (distinct,) if distinct is not None and distinct < count else buffer.shape
        values = rng.standard_normal(shape) if real else rng.integers(0, 2, shape)
        values = values.astype(buffer.dtype)
        out.append(values if shape == buffer.shape else np.resize(values, buffer.shape))
    return out


def difference(got: Sequence[Array], expected: Sequence[Array]) -> str | None:
    """How two results differ, as text; None if they agree within the tolerance."""
    if len(got) != len(expected):
        return f"it has {len(got)} results instead of {len(expected)}"
    differences = (_differs(a, b) for a, b in zip(got, expected, strict=True))
    return next((reason for reason in differences if reason is not None), None)


def _differs(a: Array, b: Array) -> str | None:
    dtype = str(b.dtype)
    if a.shape != b.shape or str(a.dtype) != dtype:
        return f"its result is {a.dtype}{list(a.shape)} instead of {dtype}{list(b.shape)}"
    if dtype not in TOLERANCE:
        count = int((a != b).sum())
        return f"its result is wrong: {count} of {b.size} elements differ" if count else None
    got, expected = a.astype("float64"), b.astype("float64")
    finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(got), finite):
        return "its result is wrong: its infinite or NaN elements are not those expected"
    relative, of_largest = TOLERANCE[dtype]
    got, expected = got[finite], expected[finite]
    bound = relative * np.abs(expected) + of_largest * np.abs(expected).max(initial=0)
    excess = np.abs(got - expected) - bound
    if not excess.size or excess.max() <= 0:
        return None
    k = int(excess.argmax())
    return f"its result is wrong: got {got[k]:.6g}, expected {expected[k]:.6g}"
