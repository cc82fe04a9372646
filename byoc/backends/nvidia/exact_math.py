"""Compile the CUDA kernels of TVM without ``--use_fast_math``, which TVM passes to NVRTC and nvcc.

With it ``powf(x, 2.0f)``, as in an RMS norm, is not a number for a negative x, and tanh is exact to
11 bits only.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FLAG = b"--use_fast_math"
#: TVM's switch for nvcc; it has none for NVRTC.
_NO_FAST_MATH = "TVM_CUDA_NVCC_NO_FAST_MATH"
_LOCK = threading.RLock()


@contextmanager
def exact_math() -> Iterator[None]:
    """A context in which TVM compiles kernels without the flag; one thread at a time enters it."""
    with _LOCK, _environment(_NO_FAST_MATH, "1"), _without_flag():
        yield


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


@contextmanager
def _without_flag() -> Iterator[None]:
    """A context in which ``cuda.bindings`` drops the flag; TVM reports if they are missing."""
    try:
        nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError:
        yield
        return
    compiling = nvrtc.nvrtcCompileProgram

    def exact(program: Any, _: int, options: Any) -> Any:
        kept = [option for option in options if option != _FLAG]
        return compiling(program, len(kept), kept)

    nvrtc.nvrtcCompileProgram = exact
    try:
        yield
    finally:
        nvrtc.nvrtcCompileProgram = compiling
