"""What makers of random operators use: the builder, and questions about tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from tvm import relax

op, nn = relax.op, relax.op.nn
LIMIT = 4000


class Builder(Protocol):
    rng: Random

    def emit(self, expr: Any) -> Any: ...
    def weight(self, *shape: int, kind: str = "") -> Any: ...
    def alike(self, x: Any, axis: int | None = None) -> list[Any]: ...


Maker = Callable[[Builder, Any], Any]
Makers = list[tuple[float, Maker]]


def maker_of(makers: Makers) -> Callable[..., Callable[[Maker], Maker]]:
    """Return a decorator that adds a function to a list, with a weight."""

    def maker(weight: float = 1.0) -> Callable[[Maker], Maker]:
        def add(f: Maker) -> Maker:
            makers.append((weight, f))
            return f

        return add

    return maker


def shape(x: Any) -> list[Any]:
    """Integers, and expressions for symbolic extents."""
    return [int(e) if hasattr(e, "value") else e for e in x.ty.shape]


def size(x: Any) -> int:
    return math.prod(e if isinstance(e, int) else 2 for e in shape(x))


def rank(x: Any) -> int:
    return len(x.ty.shape)


def dtype(x: Any) -> str:
    return str(x.ty.dtype)


def floating(x: Any) -> bool:
    return dtype(x).startswith("float")


def literal(x: Any) -> list[int]:
    """The axes of literal extent."""
    return [k for k, e in enumerate(shape(x)) if isinstance(e, int)]


def axis_of(g: Builder, x: Any) -> int | None:
    axes = literal(x)
    return g.rng.choice(axes) if axes else None


def some(g: Builder, axes: Sequence[int], least: int = 1) -> list[int]:
    axes = list(axes)
    return sorted(g.rng.sample(axes, g.rng.randint(least, len(axes)))) if axes else []


def image(x: Any, least: int = 1) -> bool:
    return (
        rank(x) == 4
        and floating(x)
        and literal(x)[-3:] == [1, 2, 3]
        and min(shape(x)[2:]) >= least
        and size(x) <= LIMIT
    )


def cast_to(g: Builder, x: Any, to: str) -> Any:
    return x if dtype(x) == to else g.emit(op.astype(x, to))
