"""Data movement, products and elementwise operators."""

from __future__ import annotations

import random
from typing import Any

from .random_operator import (
    OPS,
    Families,
    Operator,
    any_dtype,
    batch_size,
    family_of,
    float_dtype,
    random_shape,
)

FAMILIES: Families = {}
family = family_of(FAMILIES)


@family
def concat(rng: random.Random) -> Operator:
    shape = random_shape(rng)
    axis = rng.randrange(1, len(shape))
    dtype = any_dtype(rng)
    parts = [
        (tuple(rng.choice((2, 4)) if d == axis else e for d, e in enumerate(shape)), dtype)
        for _ in range(rng.choice((2, 3)))
    ]
    return Operator("concat", lambda *a: OPS.concat(list(a), axis=axis), tuple(parts))


@family
def split(rng: random.Random) -> Operator:
    shape = list(random_shape(rng))
    axis = rng.randrange(1, len(shape))
    shape[axis] = rng.choice((4, 6, 8))
    where: Any = rng.choice((2, [1, 3], [2]))
    dtype = any_dtype(rng)
    return Operator("split", lambda x: OPS.split(x, where, axis=axis), ((tuple(shape), dtype),))


@family
def strided_slice(rng: random.Random) -> Operator:
    shape = [batch_size(rng), *(rng.choice((4, 6, 8)) for _ in range(rng.randint(1, 3)))]
    axes = sorted(rng.sample(range(1, len(shape)), rng.randint(1, len(shape) - 1)))
    begin = [rng.choice((0, 1)) for _ in axes]
    end = [rng.choice((3, 4)) for _ in axes]
    strides = [rng.choice((1, 2)) for _ in axes]
    return Operator(
        "strided_slice",
        lambda x: OPS.strided_slice(x, axes, begin, end, strides),
        ((tuple(shape), any_dtype(rng)),),
    )


@family
def pad(rng: random.Random) -> Operator:
    shape = tuple(e if isinstance(e, str) else max(e, 3) for e in random_shape(rng, 2, 4))
    mode = rng.choice(("constant", "constant", "reflect", "replicate", "circular"))
    widths = [rng.choice((0, 0, 1, 2)) for _ in range(2 * len(shape))]
    if mode != "constant":
        widths[:2] = [0, 0]
    value = rng.choice((0.0, 0.0, 1.5))
    return Operator(
        "pad",
        lambda x: OPS.nn.pad(x, widths, pad_mode=mode, pad_value=value),
        ((shape, "float32"),),
    )


@family
def matmul(rng: random.Random) -> Operator:
    m, k, n = (rng.choice((1, 2, 3, 4, 8)) for _ in range(3))
    batch = rng.choice(((), (), (2,), ("n",), (2, 3)))
    dtype = float_dtype(rng)
    shared = batch if rng.random() < 0.5 else ()
    return Operator("matmul", OPS.matmul, (((*batch, m, k), dtype), ((*shared, k, n), dtype)))


@family
def elementwise(rng: random.Random) -> Operator:
    fn: Any = rng.choice((OPS.exp, OPS.nn.relu, OPS.nn.gelu, OPS.tanh, OPS.nn.silu, OPS.negative))
    return Operator("elementwise", lambda x: fn(x), ((random_shape(rng), "float32"),))


@family
def broadcast(rng: random.Random) -> Operator:
    shape = random_shape(rng)
    fn: Any = rng.choice((OPS.add, OPS.multiply, OPS.subtract, OPS.maximum, OPS.greater))
    other = tuple(e if rng.random() < 0.7 else 1 for e in shape)
    other = other[rng.choice((0, 0, 1)) :]
    dtype = rng.choice(("float32", "float32", "int32"))
    operands = ((shape, dtype), (other, dtype))
    return Operator("broadcast", lambda a, b: fn(a, b), operands)
