"""The kernels of what follows a convolution, and of conversions of layouts: see `epilogue.cu`."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np

from .....backend.region import Array
from ...nvrtc.kernel_image import compiled

#: What `ELEMENT` is for a dtype.
ELEMENTS = {"float32": 0, "float16": 1, "bfloat16": 2}


@functools.lru_cache(maxsize=len(ELEMENTS))
def image(dtype: str) -> Array:
    """The compiled kernels for tensors of a dtype, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: They do not compile.
    """
    return np.frombuffer(compiled(source(dtype)), "uint8")


def source(dtype: str) -> str:
    """The CUDA C++ of the kernels for a dtype."""
    return defined(dtype) + _text("epilogue.cu")


def defined(dtype: str) -> str:
    """CUDA C++ for kernels of a dtype: its elements, and what follows a convolution."""
    define = f"#define ELEMENT {ELEMENTS[dtype]}\n"
    return define + _text("epilogue.h") + _text("elements.cuh")


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
