"""An operator with random shapes and attributes, and what families of them draw."""

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
Families = dict[str, Family]


def family_of(families: Families) -> Callable[[Family], Family]:
    """A decorator that adds a family by its name."""

    def family(fn: Family) -> Family:
        families[fn.__name__] = fn
        return fn

    return family


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


def float_dtype(rng: random.Random) -> str:
    return rng.choice(("float32", "float32", "float32", "float16"))


def any_dtype(rng: random.Random) -> str:
    return rng.choice(("float32", "float32", "float16", "int8", "int32"))


def batch_size(rng: random.Random) -> int | str:
    return rng.choice((1, 2, 3, "n"))


def random_shape(rng: random.Random, low: int = 2, high: int = 4) -> tuple[int | str, ...]:
    rank = rng.randint(low, high)
    inner = [rng.choice((1, 2, 3, 4, 4, 6, 8)) for _ in range(rank - 1)]
    return (batch_size(rng), *inner)


def data_shape(rng: random.Random, dims: int, channels: int) -> tuple[tuple[int | str, ...], str]:
    """A data shape and its layout, usually channels first."""
    space = [rng.choice((4, 5, 6, 8)) for _ in range(dims)]
    n = batch_size(rng)
    if rng.random() < 0.7:
        return (n, channels, *space), "NC" + SPATIAL[dims]
    return (n, *space, channels), "N" + SPATIAL[dims] + "C"
