"""Random values in loops over a symbolic dimension n: expressions of elements at random places.

Every access is inside its buffer for every n >= 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tvm import tirx

INT = "int64"


@dataclass(frozen=True)
class Loop:
    """A coordinate, below ``extent``."""

    value: Any
    extent: Any


def number(value: int) -> Any:
    return tirx.IntImm(INT, value)


class LoopValues:
    """Random expressions, and the buffers that they read."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.n = tirx.Var("n", INT)
        self.inputs: list[Any] = []
        self.temps: list[Any] = []
        self.count = 0
        self.kind = "element"
        self.dtype = rng.choice(["float32"] * 5 + ["int32"])

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def likely(self, share: float) -> bool:
        return self.rng.random() < share

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: float) -> Any:
        return tirx.const(value if self.dtype == "float32" else int(value), self.dtype)

    def combiners(self) -> list[tuple[Any, Any]]:
        c = self.constant
        pairs = [(lambda a, b: a + b, c(0)), (lambda a, b: a + b, c(0)), (lambda a, b: a * b, c(1))]
        for f, value in ((tirx.max, tirx.min_value), (tirx.min, tirx.max_value)):
            pairs.append((f, value(self.dtype)))
        return pairs

    def value(self, scope: list[Loop], depth: int) -> Any:
        if depth <= 1 or self.likely(0.2):
            return self.leaf(scope)
        if self.likely(0.12):
            return tirx.if_then_else(
                self.condition(scope), self.value(scope, depth - 1), self.value(scope, depth - 1)
            )
        a = self.value(scope, depth - 1)
        if self.dtype == "float32" and self.likely(0.35):
            f = self.pick(tirx.tanh, tirx.exp, tirx.abs, lambda x: tirx.max(x, self.constant(0)))
            return f(a)
        return self.operation(a, self.value(scope, depth - 1))

    def operation(self, a: Any, b: Any) -> Any:
        ops = [lambda: a + b, lambda: a * b, lambda: a - b, lambda: tirx.max(a, b)]
        if self.dtype == "int32":
            ops.append(lambda: tirx.floordiv(a, self.constant(3)))
            if self.likely(0.1):
                ops.append(lambda: tirx.floordiv(a, b))
        return self.rng.choice(ops)()

    def leaf(self, scope: list[Loop]) -> Any:
        if self.likely(0.06):
            return self.pick(self.n, self.rng.choice(scope).value).astype(self.dtype)
        if self.likely(0.1):
            return self.constant(self.pick(0, 1, -1, 0.5))
        return self.load(scope)

    def condition(self, scope: list[Loop]) -> Any:
        v = self.rng.choice(scope).value
        other = self.rng.choice(scope).value
        return self.pick(v < 2, v + 1 < self.n, v.equal(number(0)), v.equal(self.n - 1), v <= other,
                         v < tirx.floordiv(self.n, 2),
                         tirx.EQ(tirx.floormod(v, number(2)), number(0)),
                         self.load(scope) > self.constant(0))  # fmt: skip

    def load(self, scope: list[Loop]) -> Any:
        known = [loop for loop in scope if loop.extent is not None]
        if self.temps and self.likely(0.6):
            return self.of_temp(self.rng.choice(self.temps), known)
        if self.likely(0.05) and self.dtype == "float32":
            return self.indirect(known)
        rank = self.pick(1, 1, 2)
        places = [self.place(self.rng.choice(scope), known) for _ in range(rank)]
        shape = [e for _, e, _ in places]
        b = self.input(shape)
        out = tirx.BufferLoad(b, [i for i, _, _ in places])
        for guard in (g for _, _, g in places if g is not None):
            out = tirx.if_then_else(guard, out, self.constant(self.pick(0, 0, 1)))
        return out

    def input(self, shape: list[Any], dtype: str = "") -> Any:
        """A new parameter, or one of the same shape."""
        dtype = dtype or self.dtype
        text = str(shape)
        alike = [b for b in self.inputs if str(list(b.ty.shape)) == text and b.ty.dtype == dtype]
        if alike and self.likely(0.7):
            return self.rng.choice(alike)
        self.inputs.append(tirx.decl_buffer(shape, dtype, self.name("x")))
        return self.inputs[-1]

    def place(self, loop: Loop, known: list[Loop]) -> Any:
        """An index, the extent of its axis, and a guard without which it would leave it."""
        v, e = loop.value, loop.extent
        if e is None:  # below an extent that is at most twice n, and one more
            return self.pick((v, 2 * self.n + 1, None), (tirx.floormod(v, self.n), self.n, None),
                             (tirx.min(v, self.n - 1), self.n, None),
                             (v, self.n, v < self.n))  # fmt: skip
        if self.likely(0.55):
            return v, e, None
        other = self.rng.choice(known)
        w, f = other.value, other.extent
        return self.pick(
            (v + 1, e + 1, None), (v + 2, e + 2, None), (e - 1 - v, e, None), (2 * v, 2 * e, None),
            (2 * v + 1, 2 * e, None), (tirx.floordiv(v, number(2)), e, None),
            (tirx.floormod(v, number(2)), number(2), None), (tirx.floormod(v + 1, e), e, None),
            (tirx.floormod(v * 3, e), e, None), (tirx.min(v + 1, e - 1), e, None),
            (tirx.max(v - 1, number(0)), e, None), (v + 1, e, v + 1 < e), (v - 1, e, v >= 1),
            (e - 1, e, None), (number(0), e, None), (v * f + w, e * f, None), (v + w, e + f, None),
            (w, f, None), (tirx.max(v, w), e + f, None), (v, e + 1, None),
        )  # fmt: skip

    def of_temp(self, t: Any, known: list[Loop]) -> Any:
        """An element of what an earlier stage made."""
        index = []
        for e in t.ty.shape:
            fits = [k.value for k in known if str(k.extent) == str(e)]
            v = self.rng.choice(fits) if fits else number(0)
            index.append(v if self.likely(0.7) else self.pick(
                e - 1 - v, tirx.floormod(v + 1, e), tirx.min(v + 1, e - 1),
                tirx.floordiv(v, number(2)),
            ))  # fmt: skip
        return tirx.BufferLoad(t, index)

    def indirect(self, known: list[Loop]) -> Any:
        """An element that data chooses; integers given are 0 or, if n > 1, 1."""
        loop = self.rng.choice(known)
        self.kind = "indirect"
        index = tirx.BufferLoad(self.input([loop.extent], "int32"), [loop.value]).astype(INT)
        extent = self.pick(self.n, number(3))
        clamped = tirx.max(tirx.min(index, extent - 1), number(0))
        return tirx.BufferLoad(self.input([extent]), [self.pick(index, clamped)])
