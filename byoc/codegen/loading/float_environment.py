"""The floating-point environment of this thread, which loading a library may change.

A constructor that sets flush-to-zero (as `crtfastmath.o` does), a rounding mode or traps changes
the results of all code that later runs in the process.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import numpy as np

#: Bytes that hold any ``fenv_t``.
SIZE = 512
#: A quarter of the distance between 1 and the next number.
QUARTER = 2.0**-54


class FloatEnvironment:
    """The floating-point environment at the time of creation."""

    def __init__(self) -> None:
        self.results = _results()

    def changed(self) -> str:
        """The changes since then, as one line; empty if there are none."""
        now = _results()
        names = [name for name, value in self.results.items() if now[name] != value]
        return f"it changes how the process computes: {' and '.join(names)}" if names else ""

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the environment after a block, if the C library can."""
        try:
            library = ctypes.CDLL(None)
            get, put = library.fegetenv, library.fesetenv
        except (AttributeError, OSError, TypeError):
            yield
            return
        saved = ctypes.create_string_buffer(SIZE)
        get(saved)
        try:
            yield
        finally:
            put(saved)


def _results() -> dict[str, bytes]:
    """Results that depend on the modes. If traps are set, a signal ends the process here."""
    ones = np.array([1.0, -1.0, 1.0, -1.0])
    parts = np.array([QUARTER, -QUARTER, 3 * QUARTER, -3 * QUARTER])
    tiny, small = np.array([2.0**-1022, 2.0**-1074]), np.array([2.0**-126, 2.0**-149], "float32")
    factors = np.array([0.5, 2.0])
    with np.errstate(all="ignore"):
        products = (tiny * factors).tobytes() + (small * factors.astype("float32")).tobytes()
        np.array([1.0, 0.0, 2.0**1000]) / np.array([0.0, 0.0, 2.0**-1000])
        return {"rounding": (ones + parts).tobytes(), "subnormal numbers": products}
