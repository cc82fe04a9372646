"""A random operator with random layouts of all of its buffers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from opinfo.layout.model.digit import Digit
from opinfo.layout.model.layout import Dim, Layout

from ..relaid.operators import FAMILIES
from ..relaid.random_operator import lower

SIZE = 2
FILL = (0, 0, None, 1.0, -1.0)


@dataclass(frozen=True)
class Trial:
    family: str
    func: Any
    layouts: tuple[Layout, ...]
    positive: tuple[int, ...]


def trial(seed: int) -> Trial:
    rng = random.Random(seed)
    name = rng.choice(sorted(FAMILIES))
    op = FAMILIES[name](rng)
    func = lower(op)
    assert all(map(is_buffer_var, func.params))
    packs = rng.random() < 0.7
    layouts = tuple(layout(p, packs, rng) for p in func.params)
    return Trial(name, func, layouts, op.positive)


def layout(p: Any, packs: bool, rng: random.Random) -> Layout:
    """A permutation, some axes in tiles of any size, neighbours sometimes fused to one."""
    rank, fill = len(p.ty.shape), rng.choice(FILL)
    if str(p.ty.dtype).startswith(("bool", "uint")) and fill == -1.0:
        fill = 0
    if not rank or rng.random() < 0.15:
        return Layout.identity(rank)
    dims: list[Dim] = [(Digit(a),) for a in rng.sample(range(rank), rank)]
    if packs and rng.random() < 0.7:
        tile = rng.choice((2, 3, 4))
        axis = rng.randrange(rank)
        dims[next(k for k, d in enumerate(dims) if d[0].axis == axis)] = (Digit(axis, tile),)
        dims.insert(rng.choice((len(dims), len(dims), rng.randint(0, len(dims)))),
                    (Digit(axis, 1, tile),))  # fmt: skip
        if rng.random() < 0.2 and len(dims) > 2:
            k = rng.randrange(len(dims) - 1)
            dims[k : k + 2] = [dims[k] + dims[k + 1]]
    return Layout(tuple(dims), fill)
