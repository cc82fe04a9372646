"""ONNX models that are small, and that grow, recurse, lie or point elsewhere when they are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ..formats.case import Case
from . import growing_constants, lies, names, nesting

KINDS: tuple[Callable[[random.Random], tuple[str, bytes]], ...] = (
    *growing_constants.KINDS, *nesting.KINDS, *names.KINDS, *lies.KINDS
)  # fmt: skip


def cases(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield each kind once, then kinds at random, all with parameters by the seed."""
    for make in KINDS:
        yield _case(make, rng)
    for _ in range(count - len(KINDS)):
        yield _case(rng.choice(KINDS), rng)


def _case(make: Callable[[random.Random], tuple[str, bytes]], rng: random.Random) -> Case:
    name, content = make(rng)
    return Case(name, ".onnx", content)
