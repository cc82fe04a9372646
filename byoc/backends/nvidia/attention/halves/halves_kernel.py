"""The kernel of attention in half precision: see `attention16.cu`."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np

from .....backend.region import Array
from ...libraries.source import tensor_cores
from ...nvrtc.kernel_image import compiled

#: Elements of a head: a multiple of the first, at most the second.
ELEMENTS, LARGEST_HEAD = 32, 128
#: It is tried for at most so many keys, and blocks of 64 queries: for more, cuDNN's kernel, which
#: computes larger tiles, takes less time. Of so few keys, such a tile is mostly empty.
KEYS, BLOCKS, FEW_KEYS = 512, 264, 64


def takes(head: int) -> bool:
    """Whether the kernel takes heads of so many elements."""
    return head % ELEMENTS == 0 and head <= LARGEST_HEAD


def is_tried(heads: int, queries: int, keys: int) -> bool:
    """Whether it may be faster than cuDNN's for so many heads, as in attention16.hpp."""
    return keys <= FEW_KEYS or (keys <= KEYS and heads * -(-queries // 64) <= BLOCKS)


@functools.lru_cache(maxsize=16)
def image(head: int, dtype: str, masked: bool) -> Array:
    """The compiled kernel, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: It does not compile.
    """
    return np.frombuffer(compiled(source(head, dtype, masked)), "uint8")


def source(head: int, dtype: str, masked: bool) -> str:
    """The CUDA C++ of the kernel for heads of so many elements, perhaps with a mask."""
    values = {"D": head, "BFLOAT16": int(dtype == "bfloat16"), "MASKED": int(masked)}
    defined = "".join(f"#define {name} {value}\n" for name, value in values.items())
    return defined + tensor_cores() + text("attention16.h") + text("attention16.cu")


def text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
