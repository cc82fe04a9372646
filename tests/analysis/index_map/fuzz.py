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

from .oracle import Fn, where

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


# ---------------------------------------------------------------------------- symbolic


@dataclass(frozen=True)
class Product:
    """A symbolic extent: a literal times some of the sizes."""

    literal: int
    sizes: tuple[str, ...] = ()

    def of(self, values: dict[str, Any]) -> Any:
        out: Any = self.literal
        for s in self.sizes:
            out = values[s] * out
        return out

    def over(self, other: Product) -> Product:
        left = list(self.sizes)
        for s in other.sizes:
            left.remove(s)
        return Product(self.literal // other.literal, tuple(left))

    def times(self, other: Product) -> Product:
        return Product(self.literal * other.literal, (*self.sizes, *other.sizes))

    def divisors(self) -> list[Product]:
        """Proper factors with a proper cofactor."""
        literals = [f for f in range(1, self.literal + 1) if self.literal % f == 0]
        subsets = {(), self.sizes, *((s,) for s in self.sizes)}
        found = [Product(f, s) for f in literals for s in sorted(subsets)]
        return [d for d in found if d != Product(1) and d != self]


@dataclass(frozen=True)
class Symbolic:
    """A random map with symbolic extents; ``build`` binds the sizes."""

    shape: tuple[Product, ...]
    recipe: tuple[tuple[Any, ...], ...]

    def build(self, values: dict[str, Any]) -> tuple[Fn, tuple[Any, ...]]:
        def fn(*x: Any) -> tuple[Any, ...]:
            out = list(x)
            for name, k, *rest in self.recipe:
                out = _SYMBOLIC[name](
                    out, k, [r.of(values) if isinstance(r, Product) else r for r in rest]
                )
            return tuple(out)

        return fn, tuple(e.of(values) for e in self.shape)

    @property
    def name(self) -> str:
        return " ".join(f"{name}[{k}]" for name, k, *_ in self.recipe)


_SYMBOLIC: dict[str, Callable[[Coordinates, Any, list[Any]], Coordinates]] = {
    "permute": lambda x, p, r: [x[k] for k in p],
    "split": lambda x, k, r: [*x[:k], x[k] // r[0], x[k] % r[0], *x[k + 1 :]],
    "fuse": lambda x, k, r: [*x[:k], x[k] * r[0] + x[k + 1], *x[k + 2 :]],
    "rotate": lambda x, k, r: [*x[:k], (x[k] + r[1]) % r[0], *x[k + 1 :]],
    "reverse": lambda x, k, r: [*x[:k], r[0] - 1 - x[k], *x[k + 1 :]],
    "skew": lambda x, k, r: [*x[:k], (x[k] + x[r[1]] * r[2]) % r[0], *x[k + 1 :]],
}
SYMBOLIC_SHAPES = (
    (Product(1, ("n",)),),
    (Product(4, ("n",)),),
    (Product(1, ("n",)), Product(1, ("m",))),
    (Product(1, ("n", "m")),),
    (Product(16, ("n",)), Product(8, ("m",))),
    (Product(1, ("n",)), Product(12)),
    (Product(1, ("n",)), Product(6), Product(4, ("m",))),
)


def symbolic(seed: int, low: int = 1, high: int = 3) -> Symbolic:
    """A bijective map with one or two symbolic sizes."""
    rng = np.random.default_rng(seed)
    extents = list(SYMBOLIC_SHAPES[int(rng.integers(len(SYMBOLIC_SHAPES)))])
    shape, recipe = tuple(extents), []
    for _ in range(int(rng.integers(low, high + 1))):
        name = ("permute", "split", "split", "fuse", "rotate", "reverse", "skew")[
            int(rng.integers(7))
        ]
        entry = _symbolic_step(name, extents, rng)
        if entry is not None:
            recipe.append(entry)
    return Symbolic(shape, tuple(recipe))


def _symbolic_step(name: str, e: list[Product], rng: np.random.Generator) -> tuple[Any, ...] | None:
    """A step on the extents, which it updates."""
    k = int(rng.integers(len(e)))
    if name == "permute":
        p = tuple(int(v) for v in rng.permutation(len(e)))
        e[:] = [e[v] for v in p]
        return name, p
    if name == "split":
        found = e[k].divisors()
        if not found or len(e) > 4:
            return None
        d = found[int(rng.integers(len(found)))]
        e[k : k + 1] = [e[k].over(d), d]
        return name, k, d
    if name == "fuse":
        if k + 1 >= len(e):
            return None
        inner = e[k + 1]
        e[k : k + 2] = [e[k].times(inner)]
        return name, k, inner
    if name == "rotate":
        return name, k, e[k], int(rng.integers(1, 9))
    if name == "skew":
        j = int(rng.integers(len(e)))
        return None if j == k else (name, k, e[k], j, int(rng.integers(1, 3)))
    return name, k, e[k]
