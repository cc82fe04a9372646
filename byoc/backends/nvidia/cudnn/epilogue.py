"""The kernels of what follows a convolution, and of conversions of layouts: see `epilogue.cu`."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np

from ....backend.region import Array
from ..nvrtc.kernel_image import compiled

#: What `ELEMENT` is for a dtype.
ELEMENTS = {"float32": 0, "float16": 1, "bfloat16": 2}


@functools.lru_cache(maxsize=len(ELEMENTS))
def image(dtype: str) -> Array:
    """The compiled kernels for tensors of a dtype, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: They do not compile.
    """
    defined = f"#define ELEMENT {ELEMENTS[dtype]}\n"
    return np.frombuffer(compiled(defined + text("epilogue.h") + text("epilogue.cu")), "uint8")


def text(name: str) -> str:
    """A file of this package."""
    return (files(__package__) / name).read_text(encoding="utf-8")
