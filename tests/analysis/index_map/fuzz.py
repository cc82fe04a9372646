"""Random maps: compositions of bijective steps, and mutants of them.

A step takes coordinates (numpy arrays, integers or TVM expressions) and their extents to new ones.
All steps are bijections of boxes for every size, so compositions are bijective by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .oracle import where

Coordinates = list[Any]
Apply = Callable[[Coordinates], Coordinates]


@dataclass(frozen=True)
class Step:
    """One step: what it is called, what it does, and the extents afterwards."""

    name: str
    apply: Apply
    extents: tuple[Any, ...]


@dataclass(frozen=True)
class Random:
    """A random map over ``shape`` by its steps; ``fn`` runs on arrays, integers and expressions."""

    shape: tuple[Any, ...]
    steps: tuple[Step, ...]

    def fn(self, *x: Any) -> tuple[Any, ...]:
        out = list(x)
        for step in self.steps:
            out = step.apply(out)
        return tuple(out)

    @property
    def name(self) -> str:
        return " ".join(s.name for s in self.steps)


class _Concrete:
    """Chooses steps on literal extents."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def axis(self, extents: Sequence[int]) -> int:
        return int(self.rng.integers(len(extents)))

    def permute(self, e: tuple[int, ...]) -> Step | None:
        p = [int(k) for k in self.rng.permutation(len(e))]
        return Step(f"permute{p}", lambda x: [x[k] for k in p], tuple(e[k] for k in p))

    def split(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        factors = [f for f in range(2, e[k]) if e[k] % f == 0]
        if not factors or len(e) > 5:
            return None
        f = self.pick(factors)
        return Step(
            f"split[{k}]/{f}",
            lambda x: [*x[:k], x[k] // f, x[k] % f, *x[k + 1 :]],
            (*e[:k], e[k] // f, f, *e[k + 1 :]),
        )

    def fuse(self, e: tuple[int, ...]) -> Step | None:
        if len(e) < 2:
            return None
        k = int(self.rng.integers(len(e) - 1))
        f = e[k + 1]
        return Step(
            f"fuse[{k}]",
            lambda x: [*x[:k], x[k] * f + x[k + 1], *x[k + 2 :]],
            (*e[:k], e[k] * f, *e[k + 2 :]),
        )

    def changed(self, name: str, e: tuple[int, ...], k: int, fn: Callable[[Any], Any]) -> Step:
        return Step(f"{name}[{k}]", lambda x: [*x[:k], fn(x[k]), *x[k + 1 :]], e)

    def rotate(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        s, n = int(self.rng.integers(1, 20)), e[k]
        return self.changed(f"rotate{s}", e, k, lambda i: (i + s) % n)

    def reverse(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        n = e[k]
        return self.changed("reverse", e, k, lambda i: n - 1 - i)

    def multiply(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        n = e[k]
        factors = [a for a in range(2, n) if math.gcd(a, n) == 1]
        if not factors:
            return None
        a = self.pick(factors)
        return self.changed(f"multiply{a}", e, k, lambda i: i * a % n)

    def literal_xor(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        if e[k] & (e[k] - 1) or e[k] < 2:
            return None
        c = int(self.rng.integers(1, e[k]))
        return self.changed(f"xor{c}", e, k, lambda i: i ^ c)

    def xor(self, e: tuple[int, ...]) -> Step | None:
        pairs = [
            (k, j)
            for k in range(len(e))
            for j in range(len(e))
            if j != k and e[k] > 1 and e[k] & (e[k] - 1) == 0
        ]
        if not pairs:
            return None
        k, j = self.pick(pairs)
        n = e[k]
        return Step(f"xor[{k},{j}]", lambda x: [*x[:k], x[k] ^ x[j] % n, *x[k + 1 :]], e)

    def skew(self, e: tuple[int, ...]) -> Step | None:
        if len(e) < 2:
            return None
        k, j = (int(v) for v in self.rng.permutation(len(e))[:2])
        n, a = e[k], int(self.rng.integers(1, 4))
        return Step(f"skew{a}[{k},{j}]", lambda x: [*x[:k], (x[k] + x[j] * a) % n, *x[k + 1 :]], e)

    def remainders(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        pairs = [
            (p, e[k] // p)
            for p in range(2, e[k])
            if e[k] % p == 0 and e[k] // p > 1 and math.gcd(p, e[k] // p) == 1
        ]
        if not pairs or len(e) > 5:
            return None
        p, q = self.pick(pairs)
        return Step(
            f"crt[{k}]{p},{q}",
            lambda x: [*x[:k], x[k] % p, x[k] % q, *x[k + 1 :]],
            (*e[:k], p, q, *e[k + 1 :]),
        )

    def interleave(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        if e[k] % 2:
            return None
        h = e[k] // 2
        return self.changed("interleave", e, k, lambda i: where(i < h, i * 2, (i - h) * 2 + 1))

    def swap(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        n = e[k]
        if n < 3:
            return None
        h = int(self.rng.integers(1, n))
        return self.changed(f"swap{h}", e, k, lambda i: where(i < h, i + (n - h), i - h))

    # ------------------------------------------------------------------ not bijective

    def drop_digit(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        f = int(self.rng.integers(2, 5))
        return self.changed(f"quotient{f}", e, k, lambda i: i // f)

    def overlap(self, e: tuple[int, ...]) -> Step | None:
        if len(e) < 2:
            return None
        k = int(self.rng.integers(len(e) - 1))
        f = int(self.rng.integers(1, e[k + 1] + 2))
        return Step(
            f"window{f}[{k}]",
            lambda x: [*x[:k], x[k] * f + x[k + 1], *x[k + 2 :]],
            (*e[:k], e[k] * f + e[k + 1], *e[k + 2 :]),
        )

    def clamp(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        top = max(e[k] - 2, 0)
        return self.changed("clamp", e, k, lambda i: where(i < top, i, top))

    def wrong_multiply(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        n, a = e[k], int(self.rng.integers(2, 7))
        return self.changed(f"multiply{a}", e, k, lambda i: i * a % n)

    def short_modulus(self, e: tuple[int, ...]) -> Step | None:
        k = self.axis(e)
        n = max(e[k] - 1, 1)
        return self.changed("wrap", e, k, lambda i: (i + 1) % n)


BIJECTIVE = (
    *("permute", "split", "split", "fuse", "fuse", "rotate", "reverse", "multiply"),
    *("literal_xor", "xor", "skew", "remainders", "interleave", "swap"),
)
MUTATIONS = ("drop_digit", "overlap", "clamp", "wrong_multiply", "short_modulus")
SHAPES: tuple[tuple[int, ...], ...] = (
    *((24,), (10,), (30,), (64,), (128,), (36,), (60,)),
    *((8, 6), (4, 16), (5, 7), (16, 16), (7, 9), (1, 20), (96, 10)),
    *((3, 4, 5), (2, 12, 4), (8, 8, 8), (2, 3, 4, 5)),
)


def bijective(seed: int, low: int = 1, high: int = 4) -> Random:
    """A bijective map of ``low`` to ``high`` steps."""
    return _random(seed, BIJECTIVE, (), low, high)


def mutant(seed: int) -> Random:
    """A bijective map with one step that need not be; the oracle tells what became of it."""
    return _random(seed, BIJECTIVE, MUTATIONS, 1, 3)


def _random(
    seed: int, names: tuple[str, ...], mutations: tuple[str, ...], low: int, high: int
) -> Random:
    rng = np.random.default_rng(seed)
    choose = _Concrete(rng)
    shape = choose.pick(SHAPES)
    wanted = [choose.pick(names) for _ in range(int(rng.integers(low, high + 1)))]
    if mutations:
        wanted.insert(int(rng.integers(len(wanted) + 1)), choose.pick(mutations))
    steps: list[Step] = []
    extents: tuple[int, ...] = shape
    for name in wanted:
        step = getattr(choose, name)(extents)
        if step is not None:
            steps.append(step)
            extents = step.extents
    return Random(shape, tuple(steps))
