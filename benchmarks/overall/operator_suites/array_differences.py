"""How arrays differ from expected ones, and a limit on the time of a case."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np

#: Least relative tolerances of dtypes with few bits: twice the distance of neighbouring numbers.
COARSE = {"float16": 2**-9, "bfloat16": 2**-6}
#: The same of other floats, which reassociation costs.
FINE, NEAR_ZERO = 1e-3, 1e-5


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in the block after a time."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def difference(got: Any, expected: Any, rtol: float = FINE, atol: float = 0.0) -> str:
    """Return how an array differs from the expected one; empty if it does not."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype}, expected {expected.dtype}"
    name = str(expected.dtype)
    if "float" not in name and expected.dtype.kind != "c":
        count = int((got != expected).sum())
        return f"{count} of {expected.size} elements differ" if count else ""
    wide = "complex128" if expected.dtype.kind == "c" else "float64"
    a, b = got.astype(wide), expected.astype(wide)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    coarse = COARSE.get(name, 0.0)
    near = np.isclose(a, b, rtol=max(rtol, coarse), equal_nan=True,
                      atol=max(atol, NEAR_ZERO, coarse * largest))  # fmt: skip
    if near.all():
        return ""
    place = tuple(np.argwhere(~near)[0].tolist())
    return f"{int((~near).sum())} of {b.size} elements, first {a[place]:g}, expected {b[place]:g}"
