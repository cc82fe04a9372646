"""Fill what `malloc` returns, so that a read of memory that nothing has written shows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

#: The parameter of `mallopt` for a byte whose complement fills memory, in glibc.
FILLED, BYTE = -6, 0x5A


@contextmanager
def stale_memory() -> Iterator[None]:
    """Within, new memory of this process has no zeros: its float32 are about -3e-16.

    Blocks of up to 1 KB stay as they were freed.

    Skips the test where the C library cannot fill memory.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not library.mallopt(FILLED, BYTE):
        pytest.skip("the C library does not fill memory")
    try:
        yield
    finally:
        library.mallopt(FILLED, 0)
