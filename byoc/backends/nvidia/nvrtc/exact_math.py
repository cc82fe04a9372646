"""Compile the CUDA kernels of TVM without ``--use_fast_math``, which TVM passes to NVRTC and nvcc.

With it ``powf(x, 2.0f)``, as in an RMS norm, is not a number for a negative x, and tanh is exact to
11 bits only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .nvrtc_options import environment, nvrtc_options

_FLAG = b"--use_fast_math"
#: TVM's switch for nvcc; it has none for NVRTC.
_NO_FAST_MATH = "TVM_CUDA_NVCC_NO_FAST_MATH"
_LOCK = threading.RLock()


@contextmanager
def exact_math() -> Iterator[None]:
    """A context in which TVM compiles kernels without the flag; one thread at a time enters it."""
    with _LOCK, environment(_NO_FAST_MATH, "1"), nvrtc_options(_without_flag):
        yield


def _without_flag(options: Sequence[bytes]) -> list[bytes]:
    return [option for option in options if option != _FLAG]
