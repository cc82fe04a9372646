"""The kernels of products by pieces: see `pieces.cu`."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np

from .....backend.region import Array
from ...nvrtc.kernel_image import compiled


def image() -> Array:
    """The compiled kernels, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: They do not compile.
    """
    return _image()


@functools.cache
def _image() -> Array:
    return np.frombuffer(compiled(source()), "uint8")


def source() -> str:
    """The CUDA C++ of the kernels."""
    return _text("pieces.h") + _text("pieces.cu")


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
