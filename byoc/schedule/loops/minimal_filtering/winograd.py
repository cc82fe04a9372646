"""Compute convolutions of 3x3 windows by Winograd's minimal filtering.

    Before: for o, y, x, c, i, j: out[o, y, x] += p[c, y + i, x + j] * w[o, c, i, j]
    After:  u[g, o, c] = (G w[o, c] G^T)[g]                       a product for each point g
            v[g, c, t] = (B p[c, tile t] B^T)[g]
            for g, o, t, c: m[g, o, t] += u[g, o, c] * v[g, c, t]
            out[o, tile t] = A m[:, o, t] A^T

A transform subtracts infinities, or overflows, that a direct convolution does not add up: if a
result of a tile is not finite, everything is computed again, directly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import integer, loop, seq
from .....analysis.lifting.tir.node import items
from ...nest.kernel import Accumulator, Kernel, KernelOutput
from .tiling import DTYPE
from .transforms import Transforms

#: The largest finite number.
LARGEST = 3.4028234663852886e38


class Winograd(Transforms):
    """Emits a convolution by transforms and a product for each of their points."""

    def __call__(self, direct: Any) -> Any:
        """Return the statements; ``direct`` follows if a result is not finite."""
        t, (c, o, _, _) = self.tiling, self.conv.sizes
        g, blocks, zero = t.filtering.points**2, self.conv.images // t.images, self.number(0)
        u, v = self.buffer("u", (g, o, c)), self.buffer("v", (g, c, t.count))
        m = self.buffer("m", (g, o, t.count))
        sums = self.buffer("sums", (t.filtering.outputs, o, t.count))
        total = self.buffer("total", (blocks,))

        def block(b: Any) -> Any:
            first = b * integer(t.images, b)
            inputs = loop("c", c, zero, lambda k: loop(
                "n", t.images, zero, lambda n: self.image(first, n, k, v)))  # fmt: skip
            outputs = loop("o", o, zero, lambda k: self.results(first, k, m, sums))
            return seq([inputs, self._product(u, v, m), outputs, self._total(sums, total, b)])

        infinite = self.buffer("again", (1,), "int32")
        repeated = tirx.BufferLoad(infinite, [zero]) > tirx.IntImm("int32", 0)
        return seq([
            self.weights(u),
            loop("b", blocks, zero, block),
            tirx.BufferStore(infinite, self._infinite(total, blocks), [zero]),
            tirx.IfThenElse(repeated, direct, None),
        ])  # fmt: skip

    def _infinite(self, total: Any, blocks: int) -> Any:
        """Return the number of totals that are not finite.

        It is stored as an integer: a simplifier might negate comparisons, which hold for NaN.
        """
        least, most = tirx.FloatImm(DTYPE, -LARGEST), tirx.FloatImm(DTYPE, LARGEST)
        zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
        count: Any = zero
        for k in range(blocks):
            value = tirx.BufferLoad(total, [self.number(k)])
            count = count + tirx.Select(tirx.And(least <= value, value <= most), zero, one)
        return count

    def _product(self, u: Any, v: Any, m: Any) -> Any:
        """Emit the product of weights and images for each point."""
        t, (c, o, _, _) = self.tiling, self.conv.sizes
        g, row, f = (self.axis(*a) for a in
                     (("g", t.filtering.points**2), ("o", o), ("t", t.count)))  # fmt: skip
        k = replace(self.axis("c", c), reduced=True)
        acc = tirx.Var("acc", DTYPE)
        left, right = (g.var, row.var, k.var), (g.var, k.var, f.var)
        term = tirx.BufferLoad(u, left) * tirx.BufferLoad(v, right)
        summed = Accumulator(acc, DTYPE, tirx.FloatImm(DTYPE, 0.0), acc + term)
        output = KernelOutput(m, (g.var, row.var, f.var), acc)
        return self.emit(Kernel((g, row, f), (k,), (summed,), (), (), (output,)))

    def _total(self, sums: Any, total: Any, b: Any) -> Any:
        """Emit the sum of all results of a block: it is finite only if all of them are."""
        axes = tuple(replace(self.axis(name, int(n)), reduced=True)
                     for name, n in zip("iot", items(sums.ty.shape), strict=True))  # fmt: skip
        acc = tirx.Var("acc", DTYPE)
        summed = Accumulator(acc, DTYPE, tirx.FloatImm(DTYPE, 0.0),
                             acc + tirx.BufferLoad(sums, [a.var for a in axes]))  # fmt: skip
        return self.emit(Kernel((), axes, (summed,), (), (), (KernelOutput(total, (b,), acc),)))
