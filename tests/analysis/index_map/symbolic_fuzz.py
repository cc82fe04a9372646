"""Random bijective maps with symbolic extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .fuzz import Coordinates
from .oracle import Fn


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
