"""Random PrimFuncs of plain loops over a symbolic dimension n.

What operators are not made of: shifted, reversed, strided, windowed, modular, cumulative, masked
and indirect accesses, reductions over n and what depends on it, n as a value, stages between them.
Every access is inside its buffer for every n >= 1.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tvm import tirx

from .loop_values import INT, Loop, LoopValues, number


def function(rng: Random) -> tuple[str, Any]:
    """One random PrimFunc, and of what kind it is."""
    writer = _Writer(rng)
    func = writer.function()
    return writer.kind, func


class _Writer(LoopValues):
    """Random loop nests of these values."""

    def function(self) -> Any:
        if self.likely(0.12):
            return self.special()
        body: list[Any] = []
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            temp = tirx.decl_buffer(self.pick([self.n], [self.n], [self.n, number(3)], [number(3)]),
                                    self.dtype, self.name("t"))  # fmt: skip
            loops, variables = self.identity(temp)
            self.kind = "stages"
            body += [tirx.AllocBuffer(temp), self.stage(temp, loops, variables)]
            self.temps.append(temp)
        shape, split = self.output()
        out = tirx.decl_buffer(shape, self.dtype, "out")
        loops, variables = self.identity(out)
        body.append(self.stage(out, loops, variables, split))
        return self.made(tirx.SeqStmt(body) if len(body) > 1 else body[0], out)

    def made(self, body: Any, *outs: Any) -> Any:
        func = tirx.PrimFunc([*self.inputs, *outs], body)
        return func.with_attr("tirx.noalias", True).with_attr("s_tir", True)

    def output(self) -> tuple[list[Any], Callable[[Any], list[Loop]] | None]:
        """A shape, and how to see a fused coordinate as several."""
        n, k = self.n, number(3)
        which = self.pick("n", "n", "nk", "kn", "n*k", "k*n", "k", "nn", "n+1", "2n")
        if which == "n*k":
            return [n * k], lambda f: [Loop(tirx.floordiv(f, k), n), Loop(tirx.floormod(f, k), k)]
        if which == "k*n":
            return [k * n], lambda f: [Loop(tirx.floordiv(f, n), k), Loop(tirx.floormod(f, n), n)]
        shapes = {"n": [n], "nk": [n, k], "kn": [k, n], "k": [k], "nn": [n, n],
                  "n+1": [n + 1], "2n": [2 * n]}  # fmt: skip
        return shapes[which], None

    def identity(self, b: Any) -> tuple[list[Any], list[Loop]]:
        loops = [tirx.Var(self.name("i"), INT) for _ in b.ty.shape]
        return loops, [Loop(v, e) for v, e in zip(loops, b.ty.shape, strict=True)]

    def stage(self, b: Any, loops: list[Any], at: list[Loop],
              split: Callable[[Any], list[Loop]] | None = None) -> Any:  # fmt: skip
        """A loop nest that stores every element."""
        scope = split(loops[0]) if split is not None else at
        body = self.reduced(b, loops, scope) if self.likely(0.45) else self.plain(b, loops, scope)
        for v, loop in reversed(list(zip(loops, at, strict=True))):
            body = tirx.For(v, number(0), loop.extent, tirx.ForKind.SERIAL, body)
        return body

    def plain(self, b: Any, loops: list[Any], scope: list[Loop]) -> Any:
        if self.likely(0.15):
            store = (tirx.BufferStore(b, self.value(scope, 2), loops) for _ in range(2))
            return tirx.IfThenElse(self.condition(scope), *store)
        return tirx.BufferStore(b, self.value(scope, self.pick(1, 2, 3)), loops)

    def reduced(self, b: Any, loops: list[Any], scope: list[Loop]) -> Any:
        n, v = self.n, tirx.Var(self.name("r"), INT)
        self.kind = "reduction" if self.kind == "element" else self.kind
        own = [e + 1 for e in (scope[0].value, scope[-1].value)]  # of a coordinate
        extent = self.pick(
            n, n, n, number(3), number(2), n + 1, 2 * n, tirx.floordiv(n, 2) + 1, *own
        )
        op, unit = self.pick(*self.combiners())
        whole = not any(extent is e for e in own) and self.likely(0.8)
        inside = [Loop(v, extent), *scope] if whole else [*scope, Loop(v, None)]
        start = unit if self.likely(0.85) else self.value(scope, 1)
        old = tirx.BufferLoad(b, loops)
        value = self.value(inside, self.pick(1, 1, 2))
        if self.likely(0.15):
            value = tirx.if_then_else(self.condition(inside), value, unit)
        step: Any = tirx.BufferStore(b, op(old, value), loops)
        body = [
            tirx.BufferStore(b, start, loops),
            tirx.For(v, number(0), extent, tirx.ForKind.SERIAL, step),
        ]
        if self.likely(0.25):
            body.append(tirx.BufferStore(b, self.operation(old, self.leaf(scope)), loops))
        return tirx.SeqStmt(body)

    def special(self) -> Any:
        self.dtype, self.kind = "float32", "state"
        return self.pick(self.scan, self.best, self.scatter, self.histogram)()

    def scan(self) -> Any:
        """out[i] is what the elements up to i come to."""
        n, i = self.n, tirx.Var("i", INT)
        x, out = self.input([n]), tirx.decl_buffer([n], "float32", "out")
        acc = tirx.decl_buffer([number(1)], "float32", "acc")
        op, unit = self.pick(*self.combiners())
        zero = [number(0)]
        at = self.pick(i, i, n - 1 - i)
        step = tirx.SeqStmt([
            tirx.BufferStore(acc, op(tirx.BufferLoad(acc, zero), tirx.BufferLoad(x, [at])), zero),
            tirx.BufferStore(out, tirx.BufferLoad(acc, zero), [self.pick(i, at)]),
        ])  # fmt: skip
        return self.made(tirx.SeqStmt([
            tirx.AllocBuffer(acc), tirx.BufferStore(acc, unit, zero),
            tirx.For(i, number(0), n, tirx.ForKind.SERIAL, step),
        ]), out)  # fmt: skip

    def best(self) -> Any:
        """The place of the greatest element, the first or the last of them."""
        n, i = self.n, tirx.Var("i", INT)
        x, out = self.input([n]), tirx.decl_buffer([number(1)], "int64", "out")
        top = tirx.decl_buffer([number(1)], "float32", "top")
        zero = [number(0)]
        here, there = tirx.BufferLoad(x, [i]), tirx.BufferLoad(top, zero)
        test = self.pick(here > there, here >= there)
        step = tirx.IfThenElse(test, tirx.SeqStmt([
            tirx.BufferStore(top, here, zero), tirx.BufferStore(out, i, zero)]), None)  # fmt: skip
        return self.made(tirx.SeqStmt([
            tirx.AllocBuffer(top),
            tirx.BufferStore(top, tirx.min_value("float32"), zero),
            tirx.BufferStore(out, number(0), zero),
            tirx.For(i, number(0), n, tirx.ForKind.SERIAL, step),
        ]), out)  # fmt: skip

    def scatter(self) -> Any:
        """out[index[i]] += x[i]."""
        n, i, j = self.n, tirx.Var("i", INT), tirx.Var("j", INT)
        extent = self.pick(number(3), n)
        x, index = self.input([n]), self.input([n], "int32")
        out = tirx.decl_buffer([extent], "float32", "out")
        at = [tirx.BufferLoad(index, [i]).astype(INT)]
        value = tirx.BufferLoad(x, [i])
        if self.likely(0.7):
            value = tirx.BufferLoad(out, at) + value
        return self.made(tirx.SeqStmt([
            tirx.For(j, number(0), extent, tirx.ForKind.SERIAL,
                     tirx.BufferStore(out, self.constant(0), [j])),
            tirx.For(i, number(0), n, tirx.ForKind.SERIAL, tirx.BufferStore(out, value, at)),
        ]), out)  # fmt: skip

    def histogram(self) -> Any:
        """How many elements are in each bin."""
        n, i, j = self.n, tirx.Var("i", INT), tirx.Var("j", INT)
        index, out = self.input([n], "int32"), tirx.decl_buffer([number(3)], "float32", "out")
        hit = tirx.EQ(tirx.BufferLoad(index, [i]).astype(INT), j)
        old = tirx.BufferLoad(out, [j])
        step = tirx.BufferStore(
            out, old + tirx.if_then_else(hit, self.constant(1), self.constant(0)), [j]
        )
        return self.made(tirx.For(j, number(0), number(3), tirx.ForKind.SERIAL, tirx.SeqStmt([
            tirx.BufferStore(out, self.constant(0), [j]),
            tirx.For(i, number(0), n, tirx.ForKind.SERIAL, step),
        ])), out)  # fmt: skip
