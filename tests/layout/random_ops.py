"""Random applications of Relax operators to the values of a graph that is being built.

A maker takes the builder and a tensor and gives a new one, or None if it has no use for the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, Protocol

import numpy as np
from tvm import relax

op, nn = relax.op, relax.op.nn
LIMIT = 4000


class Builder(Protocol):
    rng: Random

    def emit(self, expr: Any) -> Any: ...
    def weight(self, *shape: int, kind: str = "") -> Any: ...
    def alike(self, x: Any, axis: int | None = None) -> list[Any]: ...


Maker = Callable[[Builder, Any], Any]
MAKERS: list[tuple[float, Maker]] = []


def maker(weight: float = 1.0) -> Callable[[Maker], Maker]:
    def add(f: Maker) -> Maker:
        MAKERS.append((weight, f))
        return f

    return add


def shape(x: Any) -> list[Any]:
    """Integers, and expressions for symbolic extents."""
    return [int(e) if hasattr(e, "value") else e for e in x.ty.shape]


def size(x: Any) -> int:
    return math.prod(e if isinstance(e, int) else 2 for e in shape(x))


def rank(x: Any) -> int:
    return len(x.ty.shape)


def dtype(x: Any) -> str:
    return str(x.ty.dtype)


def floating(x: Any) -> bool:
    return dtype(x).startswith("float")


def literal(x: Any) -> list[int]:
    """The axes of literal extent."""
    return [k for k, e in enumerate(shape(x)) if isinstance(e, int)]


def axis_of(g: Builder, x: Any) -> int | None:
    axes = literal(x)
    return g.rng.choice(axes) if axes else None


def some(g: Builder, axes: Sequence[int], least: int = 1) -> list[int]:
    axes = list(axes)
    return sorted(g.rng.sample(axes, g.rng.randint(least, len(axes)))) if axes else []


def image(x: Any, least: int = 1) -> bool:
    return (
        rank(x) == 4
        and floating(x)
        and literal(x)[-3:] == [1, 2, 3]
        and min(shape(x)[2:]) >= least
        and size(x) <= LIMIT
    )


# ------------------------------------------------------------------------ windows


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
        x, _cast(g, g.weight(out, c // groups, *kernel), dtype(x)), strides, pads, dilation, groups,
    ))  # fmt: skip
    if g.rng.random() < 0.5:
        y = g.emit(op.add(y, _cast(g, g.weight(1, out, 1, 1), dtype(x))))
    return y


def _conv2d_nhwc(g: Builder, x: Any) -> Any:
    _, h, w, c = shape(x)
    if c > 12 or h < 2 or w < 2:
        return None
    weight = _cast(g, g.weight(2, 2, c, g.rng.randint(1, 6)), dtype(x))
    return g.emit(nn.conv2d(x, weight, data_layout="NHWC", kernel_layout="HWIO"))


def _cast(g: Builder, x: Any, to: str) -> Any:
    return x if dtype(x) == to else g.emit(op.astype(x, to))


@maker()
def conv2d_transpose(g: Builder, x: Any) -> Any:
    if not image(x) or size(x) > 600:
        return None
    c = shape(x)[1]
    groups = g.rng.choice([1, 1, c])
    stride, kernel = g.rng.choice([1, 2]), g.rng.choice([2, 3])
    weight = _cast(g, g.weight(c, g.rng.randint(1, 5), kernel, kernel), dtype(x))
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
    weight = _cast(g, g.weight(groups * 2, c // groups, 3), dtype(x))
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


# ------------------------------------------------------------------------ norms, reductions


@maker(2)
def batch_norm(g: Builder, x: Any) -> Any:
    if not floating(x) or rank(x) < 2 or dtype(x) != "float32":
        return None
    axis = 1 if g.rng.random() < 0.7 else g.rng.randrange(rank(x))
    if axis not in literal(x):
        return None
    c = shape(x)[axis]
    gamma, beta, mean = (g.weight(c) for _ in range(3))
    moving = g.weight(c, kind="positive")
    y = g.emit(nn.batch_norm(x, gamma, beta, mean, moving, axis, training=False))
    return g.emit(y[0])


@maker(2)
def norm(g: Builder, x: Any) -> Any:
    if not floating(x) or rank(x) < 2 or len(literal(x)) < 2 or dtype(x) != "float32":
        return None
    which = g.rng.choice(["layer", "rms", "instance", "group"])
    lit = literal(x)
    if which in ("layer", "rms"):
        axes = lit[g.rng.randint(max(1, lit[0]), len(lit) - 1) :] or lit[-1:]
        if any(b != a + 1 for a, b in pairwise(axes)) or axes[0] == 0:
            return None
        own = [shape(x)[a] for a in axes]
        if which == "rms":
            return g.emit(nn.rms_norm(x, g.weight(own[-1]), axes[-1:]))
        return g.emit(nn.layer_norm(x, g.weight(*own), g.weight(*own), axes))
    if 1 not in lit or rank(x) < 3 or 2 not in lit:
        return None
    c, axes = shape(x)[1], [a for a in lit if a > 1]
    if which == "instance":
        return g.emit(nn.instance_norm(x, g.weight(c), g.weight(c), 1, axes))
    groups = g.rng.choice([k for k in range(1, c + 1) if c % k == 0])
    return g.emit(nn.group_norm(x, g.weight(c), g.weight(c), groups, 1, axes))


@maker(1.5)
def softmax(g: Builder, x: Any) -> Any:
    if dtype(x) != "float32" or not rank(x):
        return None
    f = g.rng.choice([nn.softmax, nn.softmax, nn.log_softmax])
    return g.emit(f(x, g.rng.randrange(rank(x)) - g.rng.choice([0, rank(x)])))


@maker(2)
def reduced(g: Builder, x: Any) -> Any:
    if dtype(x) != "float32" or not rank(x):
        return None
    f = g.rng.choice([op.sum, op.mean, op.max, op.min, op.variance, op.sum])
    axes = some(g, range(rank(x)))
    if rank(x) == 4 and g.rng.random() < 0.5:
        axes = g.rng.choice([[2, 3], [1], [1, 2, 3], [0, 2, 3]])
    axes = [a - g.rng.choice([0, rank(x)]) for a in axes]
    return g.emit(f(x, axes, keepdims=g.rng.random() < 0.6))


@maker(0.5)
def argmax(g: Builder, x: Any) -> Any:
    if dtype(x) != "float32" or not rank(x):
        return None
    y = g.emit(op.argmax(x, g.rng.randrange(rank(x)), keepdims=True))
    return g.emit(op.astype(y, "float32"))


@maker(0.5)
def scanned(g: Builder, x: Any) -> Any:
    if dtype(x) != "float32" or len(literal(x)) != rank(x) or not rank(x):
        return None
    return g.emit(op.cumsum(x, g.rng.choice([None, *range(rank(x))])))


# ------------------------------------------------------------------------ elementwise


@maker(5)
def unary(g: Builder, x: Any) -> Any:
    if not floating(x):
        return None
    f = g.rng.choice(
        [
            nn.relu,
            nn.silu,
            op.tanh,
            op.sigmoid,
            op.negative,
            op.abs,
            _exp,
            _clip,
            nn.leakyrelu,
            _sqrt,
        ]
    )
    return g.emit(f(x))


def _exp(x: Any) -> Any:
    return op.exp(op.clip(x, -3.0, 2.0))


def _clip(x: Any) -> Any:
    return op.clip(x, -1.0, 2.0)


def _sqrt(x: Any) -> Any:
    return op.sqrt(op.add(op.abs(x), relax.const(1.0, dtype(x))))


@maker(4)
def binary(g: Builder, x: Any) -> Any:
    f = g.rng.choice([op.add, op.multiply, op.subtract, op.maximum, op.add])
    return g.emit(f(*_either(g, x, g.rng.choice(g.alike(x)))))


def _either(g: Builder, x: Any, y: Any) -> tuple[Any, Any]:
    return (x, y) if g.rng.random() < 0.5 else (y, x)


@maker(3)
def broadcast(g: Builder, x: Any) -> Any:
    """With a vector over some axes, with or without leading unit axes."""
    if not floating(x) or not rank(x):
        return None
    keep = some(g, literal(x))
    own = [shape(x)[k] if k in keep else 1 for k in range(rank(x))]
    while own and own[0] == 1 and g.rng.random() < 0.7:
        own = own[1:]
    f = g.rng.choice([op.add, op.multiply, op.add, op.subtract])
    return g.emit(f(*_either(g, x, _cast(g, g.weight(*own), dtype(x)))))


@maker()
def where(g: Builder, x: Any) -> Any:
    if not floating(x):
        return None
    test = g.emit(op.greater(x, relax.const(0.25, dtype(x))))
    other = g.rng.choice([*g.alike(x), relax.const(2.0, dtype(x))])
    return g.emit(op.where(test, *_either(g, x, other)))


@maker()
def cast(g: Builder, x: Any) -> Any:
    if not floating(x):
        return g.emit(op.astype(x, "float32"))
    if g.rng.random() < 0.5:
        return g.emit(op.astype(x, "float16" if dtype(x) == "float32" else "float32"))
    bounded = g.emit(op.clip(op.multiply(x, relax.const(8.0, dtype(x))), -100.0, 100.0))
    return g.emit(op.astype(bounded, "int8"))


@maker()
def matmul(g: Builder, x: Any) -> Any:
    if not floating(x) or rank(x) < 2 or rank(x) - 1 not in literal(x):
        return None
    k = shape(x)[-1]
    if k > 64 or size(x) > LIMIT:
        return None
    if g.rng.random() < 0.3 and len(literal(x)) == rank(x) and rank(x) <= 4 and size(x) < 800:
        axes = [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]
        return g.emit(op.matmul(x, g.emit(op.permute_dims(x, axes))))
    return g.emit(op.matmul(x, _cast(g, g.weight(k, g.rng.randint(1, 6)), dtype(x))))


# ------------------------------------------------------------------------ shapes


@maker(2)
def permuted(g: Builder, x: Any) -> Any:
    axes = g.rng.sample(range(rank(x)), rank(x))
    if rank(x) == 4 and g.rng.random() < 0.6:
        axes = g.rng.choice([[0, 2, 3, 1], [0, 3, 1, 2]])
    return g.emit(op.permute_dims(x, axes if axes else None))


@maker(2)
def reshaped(g: Builder, x: Any) -> Any:
    lit, own = literal(x), shape(x)
    which = g.rng.choice(["flatten", "merge", "split", "any"])
    if which == "flatten":
        if len(lit) == rank(x):
            return g.emit(op.flatten(x))
        return (
            g.emit(op.reshape(x, (own[0], math.prod(own[1:]))))
            if lit == list(range(1, rank(x)))
            else None
        )
    if which == "merge" and rank(x) > 1:
        k = g.rng.randrange(rank(x) - 1)
        return g.emit(op.reshape(x, (*own[:k], own[k] * own[k + 1], *own[k + 2 :])))
    if which == "split" and lit and rank(x) < 6:
        k = g.rng.choice(lit)
        part = g.rng.choice([d for d in range(1, own[k] + 1) if own[k] % d == 0])
        return g.emit(op.reshape(x, (*own[:k], own[k] // part, part, *own[k + 1 :])))
    if which == "any" and len(lit) == rank(x) and rank(x) == 4:
        n, c, h, w = own
        return g.emit(op.reshape(x, g.rng.choice(
            [(n, c, h * w), (n * c, h, w), (n, h, c, w), (n, c * h, w, 1), (n, h, w, c)]
        )))  # fmt: skip
    return None


@maker()
def squeezed(g: Builder, x: Any) -> Any:
    ones = [k for k, e in enumerate(shape(x)) if isinstance(e, int) and e == 1]
    if ones and g.rng.random() < 0.7:
        return g.emit(op.squeeze(x, [a - rank(x) for a in some(g, ones)]))
    if rank(x) > 4:
        return None
    return g.emit(op.expand_dims(x, g.rng.randint(-rank(x) - 1, rank(x))))


@maker(2)
def concat(g: Builder, x: Any) -> Any:
    axis = axis_of(g, x)
    if axis is None or size(x) > LIMIT // 2:
        return None
    others = [g.rng.choice(g.alike(x, axis)) for _ in range(g.rng.randint(1, 2))]
    return g.emit(op.concat([x, *others], axis - g.rng.choice([0, rank(x)])))


@maker()
def stack(g: Builder, x: Any) -> Any:
    if rank(x) > 4 or size(x) > LIMIT // 2:
        return None
    y = g.emit(op.stack([x, g.rng.choice(g.alike(x))], g.rng.randint(0, rank(x))))
    if g.rng.random() < 0.5:
        return g.emit(op.sum(y, 0)) if floating(x) else y
    return y


@maker(2)
def split(g: Builder, x: Any) -> Any:
    axis = axis_of(g, x)
    if axis is None or shape(x)[axis] < 2:
        return None
    n = shape(x)[axis]
    sections = (
        g.rng.choice([2, [g.rng.randint(1, n - 1)]]) if n % 2 == 0 else [g.rng.randint(1, n - 1)]
    )
    parts = g.emit(op.split(x, sections, axis))
    one, two = g.emit(parts[0]), g.emit(parts[1])
    again = [op.concat([two, one], axis)] if g.rng.random() < 0.4 else []
    if again:
        return g.emit(again[0])
    return g.rng.choice([one, two])


@maker()
def sliced(g: Builder, x: Any) -> Any:
    axis = axis_of(g, x)
    if axis is None or shape(x)[axis] < 2:
        return None
    n = shape(x)[axis]
    begin = g.rng.randint(0, n - 1)
    end = g.rng.randint(begin + 1, n)
    step = g.rng.choice([1, 1, 2])
    if g.rng.random() < 0.2:
        begin, end, step = n - 1, -n - 1, -1
    return g.emit(op.strided_slice(x, [axis], [begin], [end], [step]))


@maker()
def padded(g: Builder, x: Any) -> Any:
    if not rank(x) or len(literal(x)) != rank(x) or size(x) > LIMIT // 4:
        return None
    axes = some(g, range(rank(x)))[:2]
    width = [g.rng.randint(0, 2) if k // 2 in axes else 0 for k in range(2 * rank(x))]
    mode = g.rng.choice(["constant", "constant", "reflect"])
    if mode == "reflect" and (rank(x) != 4 or min(shape(x)) < 3 or not floating(x)):
        mode = "constant"
    return g.emit(nn.pad(x, width, mode, g.rng.choice([0.0, 1.0])))


@maker()
def taken(g: Builder, x: Any) -> Any:
    axis = axis_of(g, x)
    if axis is None or shape(x)[axis] < 1:
        return None
    n = shape(x)[axis]
    places = [g.rng.randrange(n) for _ in range(g.rng.randint(1, 4))]
    return g.emit(op.take(x, relax.const(np.array(places, "int64")), axis, "clip"))


@maker()
def repeated(g: Builder, x: Any) -> Any:
    if len(literal(x)) != rank(x) or size(x) > LIMIT // 4 or not rank(x):
        return None
    which = g.rng.choice(["repeat", "tile", "flip", "none"])
    if which == "none":
        return g.emit(op.repeat(x, 2))
    axis = g.rng.randrange(rank(x))
    if which == "repeat":
        return g.emit(op.repeat(x, 2, axis))
    if which == "flip":
        return g.emit(op.flip(x, axis))
    return g.emit(op.tile(x, [2 if k == axis else 1 for k in range(rank(x))]))


@maker(0.7)
def spread(g: Builder, x: Any) -> Any:
    ones = [k for k, e in enumerate(shape(x)) if isinstance(e, int) and e == 1]
    if not ones or size(x) > LIMIT // 4:
        return None
    k = g.rng.choice(ones)
    return g.emit(op.broadcast_to(x, [3 if j == k else e for j, e in enumerate(shape(x))]))


@maker(0.7)
def relaid(g: Builder, x: Any) -> Any:
    """A conversion that the program has itself, and its way back."""
    if rank(x) != 4 or len(literal(x)) != 4:
        return None
    tile, fill = g.rng.choice([(2, None), (4, 0.0), (3, 1.0)]), None
    (b, fill), c = tile, shape(x)[1]
    if fill is None and c % b:
        return None
    if not floating(x):
        fill = None if fill is None else int(fill)
    y = g.emit(op.layout_transform(
        x, index_map=lambda n, c, h, w: (n, c // b, h, w, c % b), pad_value=fill,
    ))  # fmt: skip
    if g.rng.random() < 0.5 and floating(x):
        y = g.emit(g.rng.choice([op.tanh, op.exp, nn.relu])(op.clip(y, -2.0, 2.0)))
    n, _, h, w = shape(x)
    back = g.emit(op.reshape(op.permute_dims(y, [0, 1, 4, 2, 3]), (n, -(-c // b) * b, h, w)))
    cut = g.rng.random() < 0.5 and c % b
    return g.emit(op.strided_slice(back, [1], [0], [c])) if cut else back
