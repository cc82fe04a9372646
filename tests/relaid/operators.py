"""Operators of every family that depends on layouts, with random shapes and attributes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx

from ..common.prim_funcs import prim_func

OPS = relax.op
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True)
class Operator:
    """A call: ``build`` makes it from Relax operands; a string in a shape is a symbolic size.

    ``positive`` are the operands that must be, such as a variance.
    """

    family: str
    build: Callable[..., Any]
    operands: tuple[tuple[tuple[int | str, ...], str], ...]
    positive: tuple[int, ...] = ()


Family = Callable[[random.Random], Operator]
FAMILIES: dict[str, Family] = {}


def family(fn: Family) -> Family:
    FAMILIES[fn.__name__] = fn
    return fn


def lower(op: Operator) -> Any:
    """The PrimFunc that the call legalises to. Raises what TVM raises."""
    sizes: dict[str, Any] = {}

    def dim(e: int | str) -> Any:
        return e if isinstance(e, int) else sizes.setdefault(e, tirx.Var(e, "int64"))

    operands = [
        relax.Var(f"p{k}", relax.TensorType([dim(e) for e in shape], dtype))
        for k, (shape, dtype) in enumerate(op.operands)
    ]
    return prim_func(op.build, operands)


def _float(rng: random.Random) -> str:
    return rng.choice(("float32", "float32", "float32", "float16"))


def _any(rng: random.Random) -> str:
    return rng.choice(("float32", "float32", "float16", "int8", "int32"))


def _batch(rng: random.Random) -> int | str:
    return rng.choice((1, 2, 3, "n"))


def _shape(rng: random.Random, low: int = 2, high: int = 4) -> tuple[int | str, ...]:
    rank = rng.randint(low, high)
    inner = [rng.choice((1, 2, 3, 4, 4, 6, 8)) for _ in range(rank - 1)]
    return (_batch(rng), *inner)


def _data(rng: random.Random, dims: int, channels: int) -> tuple[tuple[int | str, ...], str]:
    """A data shape and its layout, usually channels first."""
    space = [rng.choice((4, 5, 6, 8)) for _ in range(dims)]
    n = _batch(rng)
    if rng.random() < 0.7:
        return (n, channels, *space), "NC" + SPATIAL[dims]
    return (n, *space, channels), "N" + SPATIAL[dims] + "C"


@family
def conv(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2, 2, 3))
    groups = rng.choice((1, 1, 1, 2, 4))
    ci, co = groups * rng.choice((1, 2, 3, 4)), groups * rng.choice((1, 2, 4))
    shape, layout = _data(rng, dims, ci)
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
    dtype = _float(rng)
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
    shapes = ((_batch(rng), ci, *space), (ci, co, *taps))
    return Operator(
        "conv_transpose",
        lambda x, w: fn(x, w, **attrs),
        tuple((s, "float32") for s in shapes),
    )


@family
def pool(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2, 2, 3))
    shape, layout = _data(rng, dims, rng.choice((1, 3, 4, 8)))
    attrs = {
        "pool_size": tuple(rng.choice((2, 3)) for _ in range(dims)),
        "strides": tuple(rng.choice((1, 2)) for _ in range(dims)),
        "padding": (rng.choice((0, 0, 1)),) * (2 * dims),
        "layout": layout,
    }
    kind = rng.choice(("max", "avg"))
    fn = getattr(OPS.nn, f"{kind}_pool{dims}d")
    return Operator("pool", lambda x: fn(x, **attrs), ((shape, _float(rng)),))


@family
def adaptive_pool(rng: random.Random) -> Operator:
    dims = rng.choice((1, 2, 2))
    shape, layout = _data(rng, dims, rng.choice((3, 4)))
    size = tuple(rng.choice((1, 2, 3)) for _ in range(dims))
    fn = getattr(OPS.nn, f"adaptive_avg_pool{dims}d")
    return Operator("pool", lambda x: fn(x, size, layout=layout), ((shape, "float32"),))


@family
def reduce(rng: random.Random) -> Operator:
    shape = _shape(rng)
    name = rng.choice(("sum", "max", "min", "prod", "mean", "variance", "std"))
    axes = rng.sample(range(len(shape)), rng.randint(1, len(shape) - 1))
    keep = rng.random() < 0.5
    dtype = "float32" if name in ("mean", "variance", "std") else _any(rng)
    fn = getattr(OPS, name)
    return Operator("reduce", lambda x: fn(x, axis=sorted(axes), keepdims=keep), ((shape, dtype),))


@family
def argmax(rng: random.Random) -> Operator:
    shape = _shape(rng)
    fn, axis = rng.choice((OPS.argmax, OPS.argmin)), rng.randrange(len(shape))
    keep = rng.random() < 0.5
    return Operator("reduce", lambda x: fn(x, axis=axis, keepdims=keep), ((shape, "float32"),))


@family
def batch_norm(rng: random.Random) -> Operator:
    shape, layout = _data(rng, rng.choice((1, 2)), rng.choice((3, 4, 8)))
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
    shape = _shape(rng, 2, 4)
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
    shape = _shape(rng, 2, 4)
    return Operator(
        "norm",
        lambda x, g: OPS.nn.rms_norm(x, g, axes=-1, epsilon=1e-3),
        ((shape, "float32"), ((shape[-1],), "float32")),
    )


@family
def group_norm(rng: random.Random) -> Operator:
    channels = rng.choice((4, 8))
    shape = (_batch(rng), channels, rng.choice((3, 4)), rng.choice((2, 5)))
    groups = rng.choice((2, 4))
    return Operator(
        "norm",
        lambda x, g, b: OPS.nn.group_norm(x, g, b, groups, 1, [2, 3], epsilon=1e-3),
        ((shape, "float32"), *((((channels,), "float32"),) * 2)),
    )


@family
def instance_norm(rng: random.Random) -> Operator:
    channels = rng.choice((3, 4))
    shape = (_batch(rng), channels, rng.choice((3, 4)), rng.choice((2, 5)))
    return Operator(
        "norm",
        lambda x, g, b: OPS.nn.instance_norm(x, g, b, 1, [2, 3], epsilon=1e-3),
        ((shape, "float32"), *((((channels,), "float32"),) * 2)),
    )


@family
def softmax(rng: random.Random) -> Operator:
    shape = _shape(rng)
    axis = rng.randrange(len(shape))
    fn = rng.choice((OPS.nn.softmax, OPS.nn.log_softmax))
    return Operator("softmax", lambda x: fn(x, axis=axis), ((shape, _float(rng)),))


@family
def concat(rng: random.Random) -> Operator:
    shape = _shape(rng)
    axis = rng.randrange(1, len(shape))
    dtype = _any(rng)
    parts = [
        (tuple(rng.choice((2, 4)) if d == axis else e for d, e in enumerate(shape)), dtype)
        for _ in range(rng.choice((2, 3)))
    ]
    return Operator("concat", lambda *a: OPS.concat(list(a), axis=axis), tuple(parts))


@family
def split(rng: random.Random) -> Operator:
    shape = list(_shape(rng))
    axis = rng.randrange(1, len(shape))
    shape[axis] = rng.choice((4, 6, 8))
    where: Any = rng.choice((2, [1, 3], [2]))
    dtype = _any(rng)
    return Operator("split", lambda x: OPS.split(x, where, axis=axis), ((tuple(shape), dtype),))


@family
def strided_slice(rng: random.Random) -> Operator:
    shape = [_batch(rng), *(rng.choice((4, 6, 8)) for _ in range(rng.randint(1, 3)))]
    axes = sorted(rng.sample(range(1, len(shape)), rng.randint(1, len(shape) - 1)))
    begin = [rng.choice((0, 1)) for _ in axes]
    end = [rng.choice((3, 4)) for _ in axes]
    strides = [rng.choice((1, 2)) for _ in axes]
    return Operator(
        "strided_slice",
        lambda x: OPS.strided_slice(x, axes, begin, end, strides),
        ((tuple(shape), _any(rng)),),
    )


@family
def pad(rng: random.Random) -> Operator:
    shape = tuple(e if isinstance(e, str) else max(e, 3) for e in _shape(rng, 2, 4))
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
def resize2d(rng: random.Random) -> Operator:
    shape, layout = _data(rng, 2, rng.choice((3, 4, 8)))
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


@family
def matmul(rng: random.Random) -> Operator:
    m, k, n = (rng.choice((1, 2, 3, 4, 8)) for _ in range(3))
    batch = rng.choice(((), (), (2,), ("n",), (2, 3)))
    dtype = _float(rng)
    shared = batch if rng.random() < 0.5 else ()
    return Operator("matmul", OPS.matmul, (((*batch, m, k), dtype), ((*shared, k, n), dtype)))


@family
def elementwise(rng: random.Random) -> Operator:
    fn: Any = rng.choice((OPS.exp, OPS.nn.relu, OPS.nn.gelu, OPS.tanh, OPS.nn.silu, OPS.negative))
    return Operator("elementwise", lambda x: fn(x), ((_shape(rng), "float32"),))


@family
def broadcast(rng: random.Random) -> Operator:
    shape = _shape(rng)
    fn: Any = rng.choice((OPS.add, OPS.multiply, OPS.subtract, OPS.maximum, OPS.greater))
    other = tuple(e if rng.random() < 0.7 else 1 for e in shape)
    other = other[rng.choice((0, 0, 1)) :]
    dtype = rng.choice(("float32", "float32", "int32"))
    operands = ((shape, dtype), (other, dtype))
    return Operator("broadcast", lambda a, b: fn(a, b), operands)
