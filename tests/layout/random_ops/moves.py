"""Operators that move elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from .tensors import (
    LIMIT,
    Builder,
    Makers,
    axis_of,
    floating,
    literal,
    maker_of,
    rank,
    shape,
    size,
    some,
)

op, nn = relax.op, relax.op.nn
MAKERS: Makers = []
maker = maker_of(MAKERS)


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
