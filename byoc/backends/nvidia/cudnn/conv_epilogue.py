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
    return np.frombuffer(compiled(source(dtype)), "uint8")


def source(dtype: str) -> str:
    """The CUDA C++ of the kernels for a dtype."""
    texts = [(files(__package__) / f"epilogue.{end}").read_text("utf-8") for end in ("h", "cu")]
    return "".join([f"#define ELEMENT {ELEMENTS[dtype]}\n", *texts])
