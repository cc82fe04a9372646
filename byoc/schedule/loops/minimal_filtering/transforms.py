"""Emit the transforms of minimal filtering, along one axis at a time and for one channel.

    u[g, o, c] = (G w[o, c] G^T)[g]             weights
    v[g, c, t] = (B p[c, tile t] B^T)[g]        an image
    out[o, tile t] = A m[:, o, t] A^T           results

They bind what they load, so TVM does not let their results share memory with their operands, and
elements may be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.tir import dtype_of, integer, local, loop, seq, values
from .....analysis.lifting.tir.node import NodeDict, items
from ....codegen.vector_units import VectorUnits
from ...nest.collapse import Views
from ...nest.kernel import Kernel, KernelOutput
from ..deinterleave import Deinterleaved, StridedCopy
from ..loop_nest import LoopNest
from ..tile import Tile, columns
from .filtering import TAPS, Bind, paired, product
from .tiling import DTYPE, Convolution, Tiling

Emit = Callable[[Kernel], Any]
Transform = Callable[[list[Any], Bind], list[Any]]
#: Where a transform stores a result: a buffer and its indices.
Where = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class Transforms:
    """Emits the transforms of a convolution; ``emit`` is the loop nest of a kernel by the rules."""

    conv: Convolution
    tiling: Tiling
    machine: VectorUnits
    views: Views
    inner: NodeDict[None]
    emit: Emit

    def weights(self, u: Any) -> Any:
        """Emit ``u``, from the taps of the weights side by side."""
        conv, (c, o, _, _) = self.conv, self.conv.sizes
        points = self.tiling.filtering.points
        taps = self.buffer("taps", (TAPS * TAPS, o, c))
        k, row, column = (self.axis(*a) for a in (("k", TAPS * TAPS), ("o", o), ("c", c)))
        flat = (row.var * self.number(c) + column.var) * self.number(TAPS * TAPS) + k.var
        load = tirx.BufferLoad(self.views.of(conv.weights.source), [flat])
        output = KernelOutput(taps, (k.var, row.var, column.var), load)
        copy = _kernel((row, column, k), (), [output])
        lanes = columns(c, self.machine.lanes(DTYPE))[0][1]
        copied = Deinterleaved(copy, self.machine, Tile(1, 1, lanes), copy.axes, None, column,
                               copy=StridedCopy(output, load, TAPS * TAPS))()  # fmt: skip
        half = self.buffer("half", (points, TAPS, o, c))
        j, p = self.axis("j", TAPS), self.axis("p", points)
        place, number, matrix = (row.var, column.var), self.number, self.tiling.filtering.weights
        down = self._along(
            (j, row, column),
            [tirx.BufferLoad(taps, [number(TAPS * i) + j.var, *place]) for i in range(TAPS)],
            lambda e, bind: product(matrix, e, bind),
            lambda g: (half, (number(g), j.var, *place)),
        )
        across = self._along(
            (p, row, column),
            [tirx.BufferLoad(half, [p.var, number(k), *place]) for k in range(TAPS)],
            lambda e, bind: product(matrix, e, bind),
            lambda g: (u, (p.var * number(points) + number(g), *place)),
        )
        return seq([copied, down, across])

    def image(self, first: Any, n: Any, channel: Any, v: Any) -> Any:
        """Emit the transform of one channel of an image."""
        t, m = self.tiling, self.tiling.filtering.outputs
        points = t.filtering.points
        size = m * t.rows + TAPS - 1, m * t.columns + TAPS - 1
        padded, tiles = (self.buffer(name, shape) for name, shape in (
            ("padded", size), ("tiles", (points, m, (t.rows + 1) * t.columns))))  # fmt: skip
        half = self.buffer("half", (points, points, t.tiles))
        f, j, p = self.axis("t", t.tiles), self.axis("j", points), self.axis("p", points)
        number, matrix = self.number, t.filtering.data
        down = self._along(
            (j, f),
            [tirx.BufferLoad(tiles, [j.var, number(i % m), f.var + number(i // m * t.columns)])
             for i in range(points)],
            lambda e, bind: product(matrix, e, bind),
            lambda g: (half, (number(g), j.var, f.var)),
        )  # fmt: skip
        where = n * integer(t.tiles, n) + f.var
        across = self._along(
            (p, f),
            [tirx.BufferLoad(half, [p.var, number(k), f.var]) for k in range(points)],
            lambda e, bind: product(matrix, e, bind),
            lambda g: (v, (p.var * number(points) + number(g), channel, where)),
        )
        copies = [self._padded(padded, size, first + n, channel), *self._tiles(padded, tiles)]
        return seq([*map(self.emit, copies), down, across])

    def results(self, first: Any, result: Any, m: Any, sums: Any) -> Any:
        """Emit the results of one channel, and what follows the convolution."""
        t, outputs = self.tiling, self.tiling.filtering.outputs
        apart = self.buffer("apart", (outputs**2, t.count))
        joined = self.buffer("joined", (t.images, outputs * t.rows, outputs * t.columns))
        points, number, matrix = t.filtering.points, self.number, t.filtering.results
        half = self.buffer("half", (outputs, points, t.count))
        f, q, i = self.axis("t", t.count), self.axis("q", points), self.axis("i", outputs)
        down = self._along(
            (q, f),
            [tirx.BufferLoad(m, [number(points * p) + q.var, result, f.var])
             for p in range(points)],
            lambda e, bind: paired(matrix, e, bind),
            lambda k: (half, (number(k), q.var, f.var)),
        )  # fmt: skip
        across = self._along(
            (i, f),
            [tirx.BufferLoad(half, [i.var, number(p), f.var]) for p in range(points)],
            lambda e, bind: paired(matrix, e, bind),
            lambda k: (apart, (i.var * number(outputs) + number(k), f.var)),
            (sums, (i.var, result, f.var)),
        )
        following = self.emit(self._following(first, result, joined))
        return seq([down, across, self._interleaved(apart, joined), following])

    def _along(self, axes: Sequence[Axis], window: Sequence[Any], transform: Transform,
               place: Callable[[int], Where], sums: Where | None = None) -> Any:  # fmt: skip
        """Emit a transform along one axis of windows, over vectors of the last axis.

        ``sums`` is where the sum of the results goes, if it is needed.
        """
        lets, bind = _bindings()
        results = transform([bind(e) for e in window], bind)
        stored = [(*place(k), e) for k, e in enumerate(results)]
        if sums is not None:
            stored.append((*sums, sum(results[1:], start=results[0])))
        outputs = [KernelOutput(buffer, index, e) for buffer, index, e in stored]
        lanes = columns(axes[-1].static or 1, self.machine.lanes(DTYPE))[0][1]
        kernel = _kernel(axes, lets, outputs)
        return LoopNest(kernel, self.machine, Tile(1, 1, lanes), axes, None, axes[-1])()

    def _padded(self, new: Any, size: tuple[int, int], image: Any, channel: Any) -> Kernel:
        """Return the copy of one channel of a padded image, with zeros up to whole tiles."""
        conv, producer = self.conv, self.conv.producer
        h, w = self.axis("h", size[0]), self.axis("w", size[1])
        rows, cols = h.var + self.number(conv.y.base), w.var + self.number(conv.x.base)
        at = values(*((a.var, e) for a, e in
                      zip(producer.axes, (image, channel, rows, cols), strict=True)))  # fmt: skip
        moved = producer.at(at, (h, w), ())
        value = moved.results[0].value
        shape = [int(n) for n in items(producer.results[0].buffer.ty.shape)[2:]]
        within = [e < self.number(n) for e, n, most, base in (
            (rows, shape[0], size[0], conv.y.base), (cols, shape[1], size[1], conv.x.base))
            if most + base > n]  # fmt: skip
        for condition in within:
            value = _guarded(condition, value)
        output = KernelOutput(new, (h.var, w.var), value)
        return replace(moved, results=(output,), copy=False, twice=True)

    def _tiles(self, padded: Any, tiles: Any) -> list[Kernel]:
        """Return the copies of each m-th row and column, so that tiles are contiguous."""
        t, m = self.tiling, self.tiling.filtering.outputs
        out = []
        for start, rows, phases in ((0, t.rows, m), (t.rows, 1, TAPS - 1)):
            j, i = self.axis("j", t.filtering.points), self.axis("i", phases)
            h, x = self.axis("h", rows), self.axis("x", t.columns)
            row = h.var + self.number(start)
            load = tirx.BufferLoad(padded, [row * self.number(m) + i.var,
                                            x.var * self.number(m) + j.var])  # fmt: skip
            index = j.var, i.var, row * self.number(t.columns) + x.var
            out.append(_kernel((j, i, h, x), (), [KernelOutput(tiles, index, load)]))
        return out

    def _interleaved(self, apart: Any, joined: Any) -> Any:
        """Emit the rows of the results from their columns, which are apart."""
        t, m = self.tiling, self.tiling.filtering.outputs
        like, most = self.conv.channel.var, max(1, self.machine.lanes(DTYPE) // m)

        def row(n: Any, y: Any) -> Any:
            first = n * integer(t.tiles, n) + y * integer(t.columns, y)
            out = []
            for i in range(m):
                for start, width in columns(t.columns, most):
                    parts = [_vector(apart, [self.number(m * i + j)], first + start, width)
                             for j in range(m)]  # fmt: skip
                    order = [j * width + k for k in range(width) for j in range(m)]
                    columns_ = tirx.Ramp(self.number(m * start), self.number(1), m * width)
                    place = [n, y * integer(m, y) + i, columns_]
                    out.append(tirx.BufferStore(joined, tirx.Shuffle(parts, order), place))
            return seq(out)

        return loop("n", t.images, like, lambda n: loop("y", t.rows, like, lambda y: row(n, y)))

    def _following(self, first: Any, result: Any, joined: Any) -> Kernel:
        """Return what follows the convolution, over one channel of the results."""
        conv, (_, _, rows, cols) = self.conv, self.conv.sizes
        n, y, x = (self.axis(*a) for a in
                   (("n", self.tiling.images), ("y", rows), ("x", cols)))  # fmt: skip
        (acc,) = conv.kernel.accumulators
        load = tirx.BufferLoad(joined, [n.var, y.var, x.var])
        at = values(*((a.var, self.number(0)) for a in conv.kernel.axes))
        at[conv.result.var], at[conv.y.axis.var], at[conv.x.axis.var] = result, y.var, x.var
        if conv.image is not None:
            at[conv.image.var] = first + n.var
        at[acc.var] = load
        kernel = replace(conv.kernel, accumulators=(), reduced=(), before=(), copy=False)
        return kernel.at(at, (n, y, x), ())

    def buffer(self, name: str, shape: Sequence[int], dtype: str = DTYPE) -> Any:
        like = self.conv.channel.var
        buffer = local(name, [integer(n, like) for n in shape], dtype)
        self.inner[buffer] = None
        return buffer

    def axis(self, name: str, extent: int) -> Axis:
        like = self.conv.channel.var
        return Axis(tirx.Var(name, dtype_of(like)), integer(extent, like))

    def number(self, value: int) -> Any:
        return integer(value, self.conv.channel.var)


def _kernel(axes: Sequence[Axis], lets: Sequence[Any], outputs: Sequence[KernelOutput]) -> Kernel:
    return Kernel(tuple(axes), (), (), (), tuple(lets), tuple(outputs))


def _bindings() -> tuple[list[Any], Bind]:
    """Return a list of bindings, and what adds an expression to it and returns its variable."""
    lets: list[Any] = []

    def bind(expr: Any) -> Any:
        var = tirx.Var(f"e{len(lets)}", DTYPE)
        lets.append((var, expr))
        return var

    return lets, bind


def _guarded(condition: Any, value: Any) -> Any:
    """Return the value where a condition holds, else 0, with a single guard."""
    zero = tirx.FloatImm(DTYPE, 0.0)
    if isinstance(value, tvm.ir.Call) and len(value.args) == 3:
        inside, kept, other = value.args
        if isinstance(other, tirx.FloatImm) and float(other.value) == 0:
            return tirx.if_then_else(tirx.And(condition, inside), kept, other)
    return tirx.if_then_else(condition, value, zero)


def _vector(buffer: Any, outer: Sequence[Any], first: Any, lanes: int) -> Any:
    place = first if lanes == 1 else tirx.Ramp(first, integer(1, first), lanes)
    return tirx.BufferLoad(buffer, [*outer, place])
