"""The workloads that are measured on a GPU: what its launches, memory and arithmetic limit.

Those that say most come first, as measuring may end before the last ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax

from .workload_grid import Point

#: Bytes of an element, by dtype.
DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}
#: Bytes of a stream's tensors: the largest do not fit a cache, the least is a launch.
STREAMS = (1 << 27, 1 << 12, 1 << 25, 1 << 22)
#: Rows, columns, depth of products.
PRODUCTS = ((8192, 4096, 4096), (4096, 4096, 4096), (2048, 2048, 2048), (128, 3072, 768))
#: Images, extent of a square, channels in and out, window.
CONVOLUTIONS = ((32, 56, 64, 64, 3), (32, 28, 128, 128, 3), (32, 14, 256, 256, 3),
                (32, 14, 1024, 256, 1))  # fmt: skip


def gpu_points() -> list[Point]:
    """All points: in turns, of each dtype a stream, a product and a convolution."""
    lists = [kind(dtype) for kind in (_streams, _products, _conv) for dtype in DTYPES]
    return [p for turn in zip_longest(*lists) for p in turn if p is not None]


def _streams(dtype: str) -> Iterator[Point]:
    for count in STREAMS:
        shape = (count // DTYPES[dtype] // 64, 64)
        yield _of((shape,), dtype, relax.op.nn.relu)
        yield _of((shape, shape), dtype, relax.op.add)
    for columns in (512, 8192):
        rows = STREAMS[0] // DTYPES[dtype] // columns
        yield _of(((rows, columns),), dtype, lambda x: relax.op.permute_dims(x, [1, 0]))


def _products(dtype: str) -> Iterator[Point]:
    for rows, columns, depth in PRODUCTS:
        weights = _weights(dtype, depth, columns)
        yield _of(((rows, depth),), dtype, lambda x, w: relax.op.matmul(x, w), weights)


def _conv(dtype: str) -> Iterator[Point]:
    for images, extent, before, after, window in CONVOLUTIONS:
        weights = _weights(dtype, after, window, window, before)
        yield _of(((images, extent, extent, before),), dtype, lambda x, w, pad: relax.op.nn.conv2d(
            x, w, padding=pad, data_layout="NHWC", kernel_layout="OHWI"), weights,
            window // 2)  # fmt: skip


def _of(
    shapes: tuple[tuple[int, ...], ...], dtype: str, make: Callable[..., Any], *arguments: Any
) -> Point:
    """The point of ``make``, which takes the inputs, then ``arguments``."""
    return Point(shapes, lambda emit, inputs: emit(make(*inputs, *arguments)), dtype=dtype)


def _weights(dtype: str, *shape: int) -> Any:
    """Random weights: a GPU multiplies zeros faster, as it then needs less power."""
    numbers = np.resize(np.random.default_rng(0).standard_normal(65521, "float32") / 16, shape)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return relax.const(numbers.astype(kind), dtype)
