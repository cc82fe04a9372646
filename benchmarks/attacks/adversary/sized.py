"""The values of a program's symbolic sizes, and the shapes of its buffers at them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from tests.relaid.check import value

from .program import Program

Sizes = Mapping[str, int]
#: Values of a symbolic size: small, equal and different ones, and primes.
VALUES = (1, 1, 2, 3, 4, 5, 7)
#: How many choices of sizes a program is run with.
CHOICES = 4


def choices(program: Program, seed: int) -> list[Sizes]:
    """Return several values of the sizes; one empty choice for a program without sizes."""
    rng = random.Random(seed)
    if not program.sizes:
        return [{}]
    return [{name: rng.choice(VALUES) for name in program.sizes} for _ in range(CHOICES)]


def shapes(func: Any, sizes: Sizes) -> list[tuple[tuple[int, ...], str]]:
    """Return shape and dtype of each buffer among the parameters."""
    buffers = [p for p in func.params if is_buffer_var(p)]
    return [(tuple(int(value(e, {}, sizes)) for e in p.ty.shape), str(p.ty.dtype)) for p in buffers]
