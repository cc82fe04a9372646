"""Norms, reductions and scans."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tvm import relax

from .tensors import (
    Builder,
    Makers,
    dtype,
    floating,
    literal,
    maker_of,
    rank,
    shape,
    some,
)

op, nn = relax.op, relax.op.nn
MAKERS: Makers = []
maker = maker_of(MAKERS)


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
