"""Convolutions, pools and resizes."""

from __future__ import annotations

import random

from .random_operator import (
    OPS,
    SPATIAL,
    Families,
    Operator,
    batch_size,
    data_shape,
    family_of,
    float_dtype,
)

FAMILIES: Families = {}
family = family_of(FAMILIES)


@family
def conv(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2, 2, 3))
    groups = rng.choice((1, 1, 1, 2, 4))
    ci, co = groups * rng.choice((1, 2, 3, 4)), groups * rng.choice((1, 2, 4))
    shape, layout = data_shape(rng, dims, ci)
    if groups > 1 or dims != 2:  # TVM lowers the other layouts of two dimensions only
        layout, shape = "NC" + SPATIAL[dims], (shape[0], ci, *(6 for _ in range(dims)))
    taps = tuple(rng.choice((1, 2, 3)) for _ in range(dims))
    kernel = (co, ci // groups, *taps)
    attrs = {
        "strides": tuple(rng.choice((1, 1, 2)) for _ in range(dims)),
        "padding": tuple(rng.choice((0, 1)) for _ in range(2 * dims)),
        "dilation": tuple(rng.choice((1, 1, 2)) for _ in range(dims)),
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": "OI" + SPATIAL[dims],
    }
    dtype = float_dtype(rng)
    if rng.random() < 0.15:
        dtype, attrs["out_dtype"] = "int8", "int32"
    fn = getattr(OPS.nn, f"conv{dims}d")
    return Operator("conv", lambda x, w: fn(x, w, **attrs), ((shape, dtype), (kernel, dtype)))


@family
def conv_transpose(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2))
    ci, co = rng.choice((1, 2, 4)), rng.choice((1, 2, 3, 4))
    space = tuple(rng.choice((3, 4)) for _ in range(dims))
    taps = tuple(rng.choice((2, 3)) for _ in range(dims))
    stride = rng.choice((1, 2))
    attrs = {"strides": (stride,) * dims, "padding": (rng.choice((0, 1)),) * (2 * dims)}
    fn = getattr(OPS.nn, f"conv{dims}d_transpose")
    shapes = ((batch_size(rng), ci, *space), (ci, co, *taps))
    return Operator(
        "conv_transpose",
        lambda x, w: fn(x, w, **attrs),
        tuple((s, "float32") for s in shapes),
    )


@family
def pool(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2, 2, 3))
    shape, layout = data_shape(rng, dims, rng.choice((1, 3, 4, 8)))
    attrs = {
        "pool_size": tuple(rng.choice((2, 3)) for _ in range(dims)),
        "strides": tuple(rng.choice((1, 2)) for _ in range(dims)),
        "padding": (rng.choice((0, 0, 1)),) * (2 * dims),
        "layout": layout,
    }
    kind = rng.choice(("max", "avg"))
    fn = getattr(OPS.nn, f"{kind}_pool{dims}d")
    return Operator("pool", lambda x: fn(x, **attrs), ((shape, float_dtype(rng)),))


@family
def adaptive_pool(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2))
    shape, layout = data_shape(rng, dims, rng.choice((3, 4)))
    size = tuple(rng.choice((1, 2, 3)) for _ in range(dims))
    fn = getattr(OPS.nn, f"adaptive_avg_pool{dims}d")
    return Operator("pool", lambda x: fn(x, size, layout=layout), ((shape, "float32"),))


@family
def resize2d(rng: random.Random) -> Operator:
    shape, layout = data_shape(rng, 2, rng.choice((3, 4, 8)))
    method = rng.choice(("nearest_neighbor", "linear"))
    mode = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    rounding = "floor" if method == "nearest_neighbor" else ""
    size = (rng.choice((3, 8, 10)), rng.choice((3, 8, 12)))
    return Operator(
        "resize2d",
        lambda x: OPS.image.resize2d(
            x, size, layout=layout, method=method, coordinate_transformation_mode=mode,
            rounding_method=rounding,
        ),
        ((shape, "float32"),),
    )  # fmt: skip
