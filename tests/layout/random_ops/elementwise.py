"""Elementwise operators and products."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .tensors import (
    LIMIT,
    Builder,
    Makers,
    cast_to,
    dtype,
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
    return g.emit(f(*_either(g, x, cast_to(g, g.weight(*own), dtype(x)))))


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
    return g.emit(op.matmul(x, cast_to(g, g.weight(k, g.rng.randint(1, 6)), dtype(x))))
