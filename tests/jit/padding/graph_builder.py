"""A function in the making, and what makers of operators ask it for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tvm import relax, tirx

op, nn = relax.op, relax.op.nn
Maker = Callable[["Graph", Any], Any]
Makers = list[tuple[float, Maker]]


def maker_of(makers: Makers) -> Callable[..., Callable[[Maker], Maker]]:
    """A decorator that adds a maker with its weight to a list."""

    def maker(weight: float = 1.0) -> Callable[[Maker], Maker]:
        def add(f: Maker) -> Maker:
            makers.append((weight, f))
            return f

        return add

    return maker


class Graph:
    """One function in the making."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.dims = {"n": tirx.Var("n", "int64"), "m": tirx.Var("m", "int64")}
        self.inputs: list[Any] = []
        self.bb = relax.BlockBuilder()

    def input(self, shape: list[Any], dtype: str = "float32") -> Any:
        x = relax.Var(f"x{len(self.inputs)}", relax.TensorType(shape, dtype))
        self.inputs.append(x)
        return x

    def shape(self, rank: int) -> list[Any]:
        """Extents of which at least one is n."""
        n, m = self.dims["n"], self.dims["m"]
        out: list[Any] = [self.pick(2, 3, 4, m if self.rng.random() < 0.3 else 3)
                          for _ in range(rank)]  # fmt: skip
        out[self.rng.randrange(rank)] = n
        if rank > 1 and self.rng.random() < 0.15:
            out[self.rng.randrange(rank)] = n
        return out

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def axis(self, x: Any) -> int:
        return self.rng.randrange(rank(x))

    def some(self, x: Any) -> list[int]:
        return sorted(self.rng.sample(range(rank(x)), self.rng.randint(1, rank(x))))


def rank(x: Any) -> int:
    return len(x.ty.shape)


def extents(x: Any) -> list[Any]:
    return [int(e) if isinstance(e, tirx.IntImm) else e for e in x.ty.shape]


def floating(x: Any) -> bool:
    return str(x.ty.dtype) == "float32"


def rank_of(made: Any) -> int:
    """1 where it is not known yet."""
    return len(made.ty.shape) if hasattr(getattr(made, "ty", None), "shape") else 1
