"""The workloads that are measured: operators of sizes that models have, each a function.

A convolution also occurs in a stack of four, x → conv a b → conv b a → conv a b → conv b a, which
a runtime that picks its own layouts runs as it would run a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

Build = Callable[[Any, Any], Any]
"""Builds the result from an ``emit`` and the inputs."""

STACK = 4
#: Multiplications beyond which TVM's own code is not timed: it takes a second or more.
TVM_WORK = 4e7

#: Extent, channels in, channels out, window, stride; the extent is of a square.
WINDOWS = (
    (224, 3, 32, 3, 2), (224, 3, 64, 7, 2), (112, 32, 64, 3, 1), (56, 64, 64, 3, 1),
    (56, 64, 128, 3, 2), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1),
    (40, 16, 16, 3, 1), (14, 32, 32, 3, 1), (7, 64, 64, 3, 1), (28, 32, 32, 5, 1),
    (80, 24, 24, 3, 1),
)  # fmt: skip
POINTWISE = (
    (112, 16, 64), (56, 64, 256), (56, 24, 144), (28, 128, 512), (28, 40, 240), (14, 96, 576),
    (14, 256, 1024), (7, 160, 960), (7, 512, 2048), (1, 64, 256), (1, 512, 1024), (20, 32, 32),
)  # fmt: skip
#: Extent, channels, window, stride.
DEPTHWISE = ((112, 32, 3, 1), (112, 64, 3, 2), (56, 144, 3, 1), (28, 192, 3, 1), (28, 240, 5, 1),
             (14, 576, 3, 1), (14, 384, 5, 2), (7, 960, 3, 1))  # fmt: skip
#: Height, width 1, channels, window.
COLUMNS = ((100, 64, 5), (400, 32, 3))
#: Width, channels in and out, window.
LINES = ((400, 64, 64, 5), (1500, 80, 256, 3), (100, 256, 256, 1))
#: Extent, channels in and out, window; the stride is 2.
TRANSPOSED = ((14, 128, 64, 2), (28, 64, 32, 4))
#: Rows, columns, depth.
WEIGHTS = (
    (1, 768, 768), (1, 3072, 768), (1, 768, 3072), (1, 1000, 2048), (8, 64, 64), (16, 256, 256),
    (50, 96, 384), (64, 512, 512), (128, 768, 768), (128, 3072, 768), (128, 768, 3072),
    (197, 3072, 768), (512, 512, 512), (1024, 64, 64), (3136, 96, 96), (128, 8192, 1536),
    (128, 1536, 4096), (512, 4096, 1024), (256, 32, 2048),
)  # fmt: skip
#: Batch, rows, columns, depth.
BATCHED = ((12, 128, 128, 64), (12, 128, 64, 128), (12, 197, 197, 64), (4, 32, 32, 32),
           (8, 256, 256, 64), (12, 1, 128, 64), (64, 49, 49, 32))  # fmt: skip
SOFTMAX = (((1536, 128), 1), ((2364, 197), 1), ((1, 1000), 1), ((64, 64), 1), ((1, 80, 1600), 1),
           ((1, 2, 6400), 1), ((4, 16, 400), 1))  # fmt: skip
NORMS = ((128, 768), (197, 768), (1, 256), (3136, 96), (64, 256))
#: Shapes, and the axes to average over.
MEANS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 512, 7, 7), (2, 3)), ((1, 64, 56, 56), (2, 3)), ((128, 768), (1,)),
    ((1, 7, 7, 512), (1, 2)), ((1, 56, 56, 64), (1, 2)),
)  # fmt: skip
#: Extent, channels, window, stride.
POOLS = ((112, 64, 3, 2), (28, 32, 2, 2), (13, 128, 5, 1))
ELEMENTS = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22)
MOVED = (((1, 64, 56, 56), (0, 2, 3, 1)), ((1, 56, 56, 64), (0, 3, 1, 2)),
         ((1, 256, 14, 14), (0, 2, 3, 1)), ((1, 7, 7, 512), (0, 3, 1, 2)), ((768, 768), (1, 0)),
         ((1, 3, 224, 224), (0, 2, 3, 1)), ((1, 128, 12, 64), (0, 2, 1, 3)),
         ((1, 128, 12, 64), (0, 2, 3, 1)))  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A workload as a function of ``shapes``; its first operator is the one that is timed.

    A point of several operators (``count``) is for backends that run subgraphs.
    """

    shapes: tuple[tuple[int, ...], ...]
    build: Build
    count: int = 1
    dtype: str = "float32"


def points() -> list[Point]:
    """All points."""
    return [*_convolutions(), *_products(), *_others(), *_streams()]


def module(grid: list[Point]) -> Any:
    """A module with the function ``point_0`` for the first point, and so on."""
    builder = relax.BlockBuilder()
    for k, point in enumerate(grid):
        params = [relax.Var(f"x{n}", relax.TensorType(s, point.dtype))
                  for n, s in enumerate(point.shapes)]  # fmt: skip
        with builder.function(f"point_{k}", params):
            with builder.dataflow():
                out = builder.emit_output(point.build(builder.emit, params))
            builder.emit_func_output(out)
    return builder.get()


def _weights(*shape: int) -> Any:
    rng = np.random.default_rng(len(shape))
    return relax.const(rng.standard_normal(shape).astype("float32") / 16)


def _conv(last: bool, channels: tuple[int, int], window: tuple[int, int], stride: int = 1,
          groups: int = 1) -> Build:  # fmt: skip
    before, after = channels
    shape = (after, *window, before // groups) if last else (after, before // groups, *window)
    padding = [window[0] // 2, window[1] // 2] * 2

    def build(emit: Any, inputs: Any) -> Any:
        return emit(relax.op.nn.conv2d(
            inputs[0], _weights(*shape), strides=stride, padding=padding, groups=groups,
            data_layout="NHWC" if last else "NCHW", kernel_layout="OHWI" if last else "OIHW",
        ))  # fmt: skip

    return build


def _stacked(there: Build, back: Build) -> Build:
    def build(emit: Any, inputs: Any) -> Any:
        (value,) = inputs
        for k in range(STACK):
            value = (back if k % 2 else there)(emit, [value])
        return value

    return build


def _image(last: bool, height: int, width: int, channels: int) -> tuple[tuple[int, ...]]:
    return ((1, height, width, channels) if last else (1, channels, height, width),)


def _convolutions() -> Iterator[Point]:
    same = [(e, a, b, (k, k), s, 1) for e, a, b, k, s in WINDOWS]
    same += [(e, a, b, (1, 1), 1, 1) for e, a, b in POINTWISE]
    same += [(e, b, a, (1, 1), 1, 1) for e, a, b in POINTWISE[1::2]]
    same += [(e, c, c, (k, k), s, c) for e, c, k, s in DEPTHWISE]
    same += [(28, 128, 128, (3, 3), 1, 32)]
    for extent, before, after, window, stride, groups in same:
        for last in (True, False):
            shape = _image(last, extent, extent, before)
            there = _conv(last, (before, after), window, stride, groups)
            yield Point(shape, there)
            if not last and stride == 1:
                back = _conv(last, (after, before), window, stride, groups)
                yield Point(shape, _stacked(there, back), STACK)
    for height, channels, taps in COLUMNS:
        for last in (True, False):
            build = _conv(last, (channels, channels), (taps, 1))
            yield Point(_image(last, height, 1, channels), build)
    nn = relax.op.nn
    for width, before, after, taps in LINES:
        yield _of(((1, before, width),), lambda x, shape: nn.conv1d(
            x, _weights(*shape), padding=shape[2] // 2), (after, before, taps))  # fmt: skip
    for extent, before, after, taps in TRANSPOSED:
        yield _of(_image(False, extent, extent, before), lambda x, shape: nn.conv2d_transpose(
            x, _weights(*shape), strides=2, padding=(shape[2] - 2) // 2),
            (before, after, taps, taps))  # fmt: skip


def _of(shapes: tuple[tuple[int, ...], ...], make: Callable[..., Any], *arguments: Any) -> Point:
    """The point of ``make``, which takes the inputs, then ``arguments``."""
    return Point(shapes, lambda emit, inputs: emit(make(*inputs, *arguments)))


def _products() -> Iterator[Point]:
    for rows, columns, depth in WEIGHTS:
        yield _of(((rows, depth),), lambda x, shape: relax.op.matmul(x, _weights(*shape)),
                  (depth, columns))  # fmt: skip
    for batch, rows, columns, depth in BATCHED:
        yield _of(((batch, rows, depth), (batch, depth, columns)), relax.op.matmul)


def _others() -> Iterator[Point]:
    nn = relax.op.nn
    for softmax, axis in SOFTMAX:
        yield _of((softmax,), nn.softmax, axis)
    for rows, columns in NORMS:
        yield _of(((rows, columns),), lambda x, n: nn.layer_norm(x, _weights(n), _weights(n), -1),
                  columns)  # fmt: skip
    for extent, channels, taps, stride in POOLS:
        for last in (True, False):
            for pool in (nn.max_pool2d, nn.avg_pool2d):
                yield _of(_image(last, extent, extent, channels), lambda x, f, window, step, layout:
                          f(x, window, step, layout=layout), pool, (taps, taps), (stride, stride),
                          "NHWC" if last else "NCHW")  # fmt: skip
    for shape, axes in MEANS:
        yield _of((shape,), relax.op.mean, list(axes), True)
    for method in ("linear", "nearest_neighbor"):
        for extent, channels in ((28, 64), (14, 128), (80, 16)):
            yield _of(_image(False, extent, extent, channels), lambda x, size, how:
                      relax.op.image.resize2d(x, size, layout="NCHW", method=how),
                      (2 * extent, 2 * extent), method)  # fmt: skip


def _streams() -> Iterator[Point]:
    op = relax.op
    for count in ELEMENTS:
        shape = (count // 64, 64)
        yield _of((shape, shape), op.add)
        for function in (op.nn.relu, op.sigmoid, op.nn.gelu):
            yield _of((shape,), function)
        for axis in (1, 0):
            yield _of((shape, shape), lambda x, y, axis: op.concat([x, y], axis), axis)
    for moved, axes in MOVED:
        yield _of((moved,), op.permute_dims, list(axes))
