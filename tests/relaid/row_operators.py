"""Reductions, norms and softmax."""

from __future__ import annotations

import random

from .random_operator import (
    OPS,
    Families,
    Operator,
    any_dtype,
    batch_size,
    data_shape,
    family_of,
    float_dtype,
    random_shape,
)

FAMILIES: Families = {}
family = family_of(FAMILIES)


@family
def reduce(rng: random.Random) -> Operator:
    shape = random_shape(rng)
    name = rng.choice(("sum", "max", "min", "prod", "mean", "variance", "std"))
    axes = rng.sample(range(len(shape)), rng.randint(1, len(shape) - 1))
    keep = rng.random() < 0.5
    dtype = "float32" if name in ("mean", "variance", "std") else any_dtype(rng)
    fn = getattr(OPS, name)
    return Operator("reduce", lambda x: fn(x, axis=sorted(axes), keepdims=keep), ((shape, dtype),))


@family
def argmax(rng: random.Random) -> Operator:
    shape = random_shape(rng)
    fn, axis = rng.choice((OPS.argmax, OPS.argmin)), rng.randrange(len(shape))
    keep = rng.random() < 0.5
    return Operator("reduce", lambda x: fn(x, axis=axis, keepdims=keep), ((shape, "float32"),))


@family
def batch_norm(rng: random.Random) -> Operator:
    shape, layout = data_shape(rng, rng.choice((1, 2)), rng.choice((3, 4, 8)))
    axis, training = layout.index("C"), False
    each = (((shape[axis],), "float32"),) * 4
    return Operator(
        "norm",
        lambda *a: OPS.nn.batch_norm(*a, axis=axis, epsilon=1e-3, training=training),
        ((shape, "float32"), *each),
        positive=(4,),
    )


@family
def layer_norm(rng: random.Random) -> Operator:
    shape = random_shape(rng, 2, 4)
    count = rng.randint(1, len(shape) - 1)
    axes = list(range(-count, 0))
    wide = (shape[-count:], "float32")
    return Operator(
        "norm",
        lambda x, g, b: OPS.nn.layer_norm(x, g, b, axes=axes, epsilon=1e-3),
        ((shape, "float32"), wide, wide),
    )


@family
def rms_norm(rng: random.Random) -> Operator:
    shape = random_shape(rng, 2, 4)
    return Operator(
        "norm",
        lambda x, g: OPS.nn.rms_norm(x, g, axes=-1, epsilon=1e-3),
        ((shape, "float32"), ((shape[-1],), "float32")),
    )


@family
def group_norm(rng: random.Random) -> Operator:
    channels = rng.choice((4, 8))
    shape = (batch_size(rng), channels, rng.choice((3, 4)), rng.choice((2, 5)))
    groups = rng.choice((2, 4))
    return Operator(
        "norm",
        lambda x, g, b: OPS.nn.group_norm(x, g, b, groups, 1, [2, 3], epsilon=1e-3),
        ((shape, "float32"), *((((channels,), "float32"),) * 2)),
    )


@family
def instance_norm(rng: random.Random) -> Operator:
    channels = rng.choice((3, 4))
    shape = (batch_size(rng), channels, rng.choice((3, 4)), rng.choice((2, 5)))
    return Operator(
        "norm",
        lambda x, g, b: OPS.nn.instance_norm(x, g, b, 1, [2, 3], epsilon=1e-3),
        ((shape, "float32"), *((((channels,), "float32"),) * 2)),
    )


@family
def softmax(rng: random.Random) -> Operator:
    shape = random_shape(rng)
    axis = rng.randrange(len(shape))
    fn = rng.choice((OPS.nn.softmax, OPS.nn.log_softmax))
    return Operator("softmax", lambda x: fn(x, axis=axis), ((shape, float_dtype(rng)),))
