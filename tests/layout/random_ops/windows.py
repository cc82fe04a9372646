"""Convolutions, pools and resizes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .tensors import (
    Builder,
    Makers,
    cast_to,
    dtype,
    floating,
    image,
    literal,
    maker_of,
    rank,
    shape,
    size,
)

op, nn = relax.op, relax.op.nn
MAKERS: Makers = []
maker = maker_of(MAKERS)


@maker(6)
def conv2d(g: Builder, x: Any) -> Any:
    if not image(x):
        return None
    if g.rng.random() < 0.1:
        return _conv2d_nhwc(g, x)
    _, c, h, w = shape(x)
    groups = g.rng.choice([1, 1, 1, c, g.rng.choice([k for k in range(1, c + 1) if c % k == 0])])
    out = groups * g.rng.randint(1, max(1, 9 // groups))
    kernel = [g.rng.choice([1, 2, 3]), g.rng.choice([1, 3])]
    dilation = [g.rng.choice([1, 1, 2]) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [g.rng.choice([0, 1, 1, 2]) for _ in range(4)]
    if h + pads[0] + pads[2] < reach[0] or w + pads[1] + pads[3] < reach[1]:
        return None
    strides = [g.rng.choice([1, 1, 2]) for _ in range(2)]
    y = g.emit(nn.conv2d(
        x, cast_to(g, g.weight(out, c // groups, *kernel), dtype(x)), strides, pads, dilation,
        groups,
    ))  # fmt: skip
    if g.rng.random() < 0.5:
        y = g.emit(op.add(y, cast_to(g, g.weight(1, out, 1, 1), dtype(x))))
    return y


def _conv2d_nhwc(g: Builder, x: Any) -> Any:
    _, h, w, c = shape(x)
    if c > 12 or h < 2 or w < 2:
        return None
    weight = cast_to(g, g.weight(2, 2, c, g.rng.randint(1, 6)), dtype(x))
    return g.emit(nn.conv2d(x, weight, data_layout="NHWC", kernel_layout="HWIO"))


@maker()
def conv2d_transpose(g: Builder, x: Any) -> Any:
    if not image(x) or size(x) > 600:
        return None
    c = shape(x)[1]
    groups = g.rng.choice([1, 1, c])
    stride, kernel = g.rng.choice([1, 2]), g.rng.choice([2, 3])
    weight = cast_to(g, g.weight(c, g.rng.randint(1, 5), kernel, kernel), dtype(x))
    pad = g.rng.choice([0, 1])
    if (min(shape(x)[2:]) - 1) * stride + kernel - 2 * pad < 1:
        return None
    return g.emit(nn.conv2d_transpose(x, weight, (stride,) * 2, (pad, pad), groups=groups))


@maker()
def conv1d(g: Builder, x: Any) -> Any:
    if rank(x) != 3 or not floating(x) or literal(x)[-2:] != [1, 2] or shape(x)[2] < 3:
        return None
    c = shape(x)[1]
    groups = g.rng.choice([1, c])
    weight = cast_to(g, g.weight(groups * 2, c // groups, 3), dtype(x))
    return g.emit(nn.conv1d(x, weight, g.rng.choice([1, 2]), g.rng.choice([0, 1]), groups=groups))


@maker(2)
def pool(g: Builder, x: Any) -> Any:
    if not image(x, 2):
        return None
    which = g.rng.choice(["max", "avg", "global", "adaptive"])
    layout = g.rng.choice(["NCHW", "NCHW", "NHWC"])
    if which in ("global", "adaptive"):
        target = (1, 1) if which == "global" else (2, 2)
        return g.emit(nn.adaptive_avg_pool2d(x, target, layout))
    if layout == "NHWC" and min(shape(x)[1:3]) < 2:
        return None
    window = (2, g.rng.choice([2, 1]))
    strides = [g.rng.choice([1, 2]) for _ in range(2)]
    pads = [g.rng.choice([0, 0, 1]), 0, g.rng.choice([0, 1]), 0]
    ceil = g.rng.random() < 0.2
    if which == "max":
        return g.emit(nn.max_pool2d(x, window, strides, pads, (1, 1), ceil, False, layout))
    count = g.rng.random() < 0.5
    return g.emit(nn.avg_pool2d(x, window, strides, pads, (1, 1), ceil, count, layout))


@maker()
def resize2d(g: Builder, x: Any) -> Any:
    if not image(x, 2) or size(x) > 500:
        return None
    method = g.rng.choice(["linear", "nearest_neighbor", "nearest_neighbor"])
    mode = g.rng.choice(["half_pixel", "asymmetric"])
    layout = g.rng.choice(["NCHW", "NCHW", "NHWC"])
    h, w = shape(x)[2:] if layout == "NCHW" else shape(x)[1:3]
    return g.emit(op.image.resize2d(
        x, (h * 2, w + g.rng.randint(0, 2)), layout=layout, method=method,
        coordinate_transformation_mode=mode, rounding_method="floor",
    ))  # fmt: skip
