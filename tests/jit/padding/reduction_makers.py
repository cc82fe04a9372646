"""Makers of reductions, contractions and windows, and of reads by data."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .graph_builder import Graph, Makers, extents, floating, maker_of, nn, op, rank

MAKERS: Makers = []
maker = maker_of(MAKERS)


@maker(3)
def reduced(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    f = g.pick(op.sum, op.sum, op.max, op.min, op.mean, op.prod, op.variance, op.std)
    return f(x, g.some(x), keepdims=g.rng.random() < 0.6)


@maker(2)
def softmax(g: Graph, x: Any) -> Any:
    return g.pick(nn.softmax, nn.log_softmax)(x, g.axis(x)) if floating(x) else None


@maker(1)
def argmax(g: Graph, x: Any) -> Any:
    return g.pick(op.argmax, op.argmin)(x, g.axis(x), keepdims=True) if floating(x) else None


@maker(0.6)
def cumulative(g: Graph, x: Any) -> Any:
    return op.cumsum(x, g.axis(x)) if floating(x) else None


@maker(1.5)
def norm(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    e, which = extents(x), g.pick("layer", "rms", "batch", "group")
    if which == "layer":
        axes = list(range(g.rng.randint(0, rank(x) - 1), rank(x)))
        own = [e[a] for a in axes]
        return nn.layer_norm(x, g.input(own), g.input(own), axes)
    if which == "rms":
        return nn.rms_norm(x, g.input(e[-1:]), [-1])
    if rank(x) < 3:
        return None
    c = e[1]
    if which == "group":
        return nn.group_norm(x, g.input([c]), g.input([c]), 1, 1, list(range(2, rank(x))))
    weights = [g.input([c]) for _ in range(4)]
    return g.bb.emit(nn.batch_norm(x, *weights, axis=1, training=False))[0]


@maker(3)
def matmul(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    e = extents(x)
    if len(e) == 1:
        return op.matmul(x, g.input([e[0], g.pick(3, g.dims["n"])]))
    batch = e[:-2] if len(e) > 2 and g.rng.random() < 0.4 else []
    other = [*batch, e[-1], g.pick(2, 3, g.dims["n"])]
    return op.matmul(x, g.input(other))


@maker(1)
def gram(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) < 2:
        return None
    axes = [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]
    flipped = op.permute_dims(x, axes)
    return op.matmul(x, flipped) if g.rng.random() < 0.5 else op.matmul(flipped, x)


@maker(0.8)
def attention(g: Graph, x: Any) -> Any:
    """Of a head over n positions."""
    if not floating(x) or rank(x) != 3:
        return None
    e = extents(x)
    keys, values = (g.input(e) for _ in range(2))
    scores = nn.softmax(op.matmul(x, op.permute_dims(keys, [0, 2, 1])), 2)
    return op.matmul(scores, values)


@maker(2.5)
def conv(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) not in (3, 4):
        return None
    e = extents(x)
    c, k = e[1], g.pick(1, 2, 3)
    if not isinstance(c, int):
        return None
    space = rank(x) - 2
    f = nn.conv1d if space == 1 else nn.conv2d
    weight = g.input([g.pick(2, 3), c, *[k] * space])
    pad = g.pick(0, (k - 1) // 2, k // 2)
    return f(x, weight, [g.pick(1, 1, 2)] * space, [pad] * (2 * space), g.pick(1, 1, 2))


@maker(1.5)
def pool(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) != 4:
        return None
    if g.rng.random() < 0.2:
        return nn.adaptive_avg_pool2d(x, g.pick((1, 1), (2, 2)))
    f = g.pick(nn.max_pool2d, nn.avg_pool2d)
    k = g.pick(2, 3)
    return f(x, (k, k), (g.pick(1, 2),) * 2, (g.pick(0, 1),) * 4)


@maker(0.5)
def resized(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) != 4:
        return None
    h, w = extents(x)[2:]
    return op.image.resize2d(x, (h * 2, w * 2), method=g.pick("nearest_neighbor", "linear"))


@maker(1.2)
def taken(g: Graph, x: Any) -> Any:
    index = g.input([g.pick(g.dims["n"], 3)], g.pick("int64", "int32"))
    return op.take(x, index, g.axis(x), mode=g.pick("fast", "clip", "wrap"))


@maker(0.6)
def gathered(g: Graph, x: Any) -> Any:
    return op.gather_elements(x, g.input(extents(x), "int64"), g.axis(x))


@maker(0.4)
def hot(g: Graph, x: Any) -> Any:
    index = g.input([g.dims["n"]], "int64")
    return op.one_hot(index, relax.prim_value(1), relax.prim_value(0), 3, -1)


@maker(0.4)
def scattered(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    return op.scatter_elements(x, g.input(extents(x), "int64"), g.input(extents(x)), g.axis(x))
