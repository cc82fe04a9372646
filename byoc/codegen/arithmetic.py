"""How this thread computes with floating-point numbers, which an opened library may change.

A constructor that sets flush-to-zero (as `crtfastmath.o` does), another rounding or traps changes
results of all code that runs later in the process.
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


class Arithmetic:
    """How the thread computes now."""

    def __init__(self) -> None:
        self.results = _results()

    def changed(self) -> str:
        """What is different from then, in one line; empty if nothing is."""
        now = _results()
        names = [name for name, value in self.results.items() if now[name] != value]
        return f"it changes how the process computes: {' and '.join(names)}" if names else ""

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A block after which the thread computes as before, where the C library can do that."""
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
    """What tells modes apart, by what they change. Traps end the process, by a signal."""
    ones = np.array([1.0, -1.0, 1.0, -1.0])
    parts = np.array([QUARTER, -QUARTER, 3 * QUARTER, -3 * QUARTER])
    tiny, small = np.array([2.0**-1022, 2.0**-1074]), np.array([2.0**-126, 2.0**-149], "float32")
    factors = np.array([0.5, 2.0])
    with np.errstate(all="ignore"):
        products = (tiny * factors).tobytes() + (small * factors.astype("float32")).tobytes()
        np.array([1.0, 0.0, 2.0**1000]) / np.array([0.0, 0.0, 2.0**-1000])
        return {"rounding": (ones + parts).tobytes(), "subnormal numbers": products}
