"""Compute convolutions of 3x3 windows by Winograd's minimal filtering.

    Before: for o, y, x, c, i, j: out[o, y, x] += p[c, y + i, x + j] * w[o, c, i, j]
    After:  u[g, o, c] = (G w[o, c] G^T)[g]                       a product for each point g
            v[g, c, t] = (B p[c, tile t] B^T)[g]
            for g, o, t, c: m[g, o, t] += u[g, o, c] * v[g, c, t]
            out[o, tile t] = A m[:, o, t] A^T

Only kernels for one shape use it, because they are compared with the generic kernel in results and
in time. A transform subtracts infinities, or overflows, that a direct convolution does not add up:
if a result of a tile is not finite, all are computed again, directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm
from tvm import tirx

from ....analysis.lifting.tir.node import NodeDict, items
from ..nest.collapse import Views
from ..nest.kernel import Accumulator, Kernel, KernelOutput, Part
from ..nest.program import Axis
from ..nest.tir import Values, dtype_of, integer, loads, local, loop, seq, values
from .axes import extent
from .deinterleave import Deinterleaved, StridedCopy
from .filtering import FILTERINGS, TAPS, Filtering, paired, product
from .loop_nest import LoopNest
from .machine import VectorUnits
from .strided import identity, producer_of
from .tile import Tile, columns, cycles
from .windows import Place, place_of

DTYPE = "float32"
#: Tiles of one product at most if several images take part.
TILES = 128
#: The largest finite number.
LARGEST = 3.4028234663852886e38
Emit = Callable[[Kernel], Any]


@dataclass(frozen=True)
class Convolution:
    """A kernel that is a convolution: its axes, its loads, and what pads its operand."""

    kernel: Kernel
    producer: Kernel
    weights: Any
    image: Axis | None
    channel: Axis
    result: Axis
    y: Place
    x: Place

    @property
    def images(self) -> int:
        return 1 if self.image is None else self.image.static or 1

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Channels, results, rows and columns."""
        axes = self.channel, self.result, self.y.axis, self.x.axis
        c, o, h, w = (a.static or 0 for a in axes)
        return c, o, h, w


def convolution(parts: Sequence[Part], inner: NodeDict[None], views: Views) -> Convolution | None:
    """Return the convolution that a function consists of, or None if it is something else."""
    if len(parts) not in (1, 2) or not all(isinstance(p, Kernel) for p in parts):
        return None
    kernel = parts[-1]
    assert isinstance(kernel, Kernel)
    operands = _operands(kernel)
    if operands is None or any(r.buffer in inner for r in kernel.results):
        return None
    for source, weights in (operands, operands[::-1]):
        producer = producer_of(parts[:-1], source.source, (), inner)
        if producer is None:
            if len(parts) == 2 or source.source in inner:
                continue
            producer = identity(source.source)
        matched = _matched(kernel, source, weights, producer, views)
        if matched is not None:
            return matched
    return None


def _operands(kernel: Kernel) -> tuple[Any, Any] | None:
    """Return the two loads of a sum of products in float32 that starts at 0."""
    if len(kernel.accumulators) != 1 or kernel.before:
        return None
    (acc,) = kernel.accumulators
    start, update = acc.init, acc.update
    if acc.dtype != DTYPE or not isinstance(start, tirx.FloatImm) or float(start.value) != 0:
        return None
    if not isinstance(update, tirx.Add):
        return None
    a, b = update.a, update.b
    term = b if a.same_as(acc.var) else a if b.same_as(acc.var) else None
    if not isinstance(term, tirx.Mul):
        return None
    pair = term.a, term.b
    if not all(isinstance(e, tvm.ir.TensorLoad) and dtype_of(e) == DTYPE for e in pair):
        return None
    return pair


def _matched(
    kernel: Kernel, source: Any, weights: Any, producer: Kernel, views: Views
) -> Convolution | None:
    index, taps = items(source.indices), items(weights.indices)
    if len(index) != 4 or len(taps) != 4 or weights.source not in views:
        return None
    result = _axis(taps[0], kernel.axes)
    channel = _axis(taps[1], kernel.reduced)
    image = _axis(index[0], kernel.axes)
    y_axis, x_axis = (a for a in kernel.axes[-2:]) if len(kernel.axes) > 2 else (None, None)
    if result is None or channel is None or y_axis is None or x_axis is None:
        return None
    y, x = place_of(index[2], y_axis, kernel), place_of(index[3], x_axis, kernel)
    if y is None or x is None or not index[1].same_as(channel.var):
        return None
    for place, tap in ((y, taps[2]), (x, taps[3])):
        if place.window is None or not tap.same_as(place.window.var):
            return None
        if place.stride != 1 or place.step != 1 or place.window.static != TAPS:
            return None
    known = [a for a in (image, result, y.axis, x.axis, channel) if a is not None]
    spare = [a for a in kernel.axes if not any(a is b for b in known)]
    one = image is not None or (isinstance(index[0], tirx.IntImm) and int(index[0].value) == 0)
    plain = one and len(kernel.reduced) == 3 and all(a.static == 1 for a in spare)
    shape = [n for n in items(weights.source.ty.shape) if not isinstance(n, tirx.IntImm)]
    if not plain or shape or any(a.static is None for a in known):
        return None
    return Convolution(kernel, producer, weights, image, channel, result, y, x)


def _axis(index: Any, axes: Sequence[Axis]) -> Axis | None:
    return next((a for a in axes if index.same_as(a.var)), None)


# ------------------------------------------------------------------------ choice


@dataclass(frozen=True)
class Tiling:
    """Tiles of ``outputs`` squared results: rows and columns of them, images of one product."""

    filtering: Filtering
    rows: int
    columns: int
    images: int

    @property
    def tiles(self) -> int:
        """The tiles of an image."""
        return self.rows * self.columns

    @property
    def count(self) -> int:
        """The tiles of a product."""
        return self.images * self.tiles


def choose_tiling(conv: Convolution, machine: VectorUnits) -> Tiling | None:
    """Return the fastest tiling, or None if a direct convolution is estimated to be faster."""
    if machine.cores > 1:
        return None
    c, o, h, w = conv.sizes
    lanes = machine.lanes(DTYPE)
    if min(c, o) < lanes // 2 or min(h, w) < 4:
        return None
    direct = conv.images * min(
        h * cycles(o, len(columns(w, lanes)), c * TAPS * TAPS, machine),
        cycles(o, -(-h * w // lanes), c * TAPS * TAPS, machine),
    )
    tilings = [_tiling(conv, f) for f in FILTERINGS]
    fastest = min(tilings, key=lambda t: _cycles(conv, t, machine))
    return fastest if _cycles(conv, fastest, machine) < direct else None


def _tiling(conv: Convolution, filtering: Filtering) -> Tiling:
    _, _, h, w = conv.sizes
    m = filtering.outputs
    rows, columns_ = -(-h // m), -(-w // m)
    fitting = [n for n in range(1, conv.images + 1)
               if conv.images % n == 0 and n * rows * columns_ <= TILES]  # fmt: skip
    return Tiling(filtering, rows, columns_, max(fitting, default=1))


def _cycles(conv: Convolution, t: Tiling, machine: VectorUnits) -> float:
    """Estimate the cycles: products, and transforms at a vector operation a cycle."""
    c, o, _, _ = conv.sizes
    points, m, lanes = t.filtering.points, t.filtering.outputs, machine.lanes(DTYPE)
    vectors = len(columns(t.tiles, lanes)) * conv.images
    products = points**2 * cycles(o, -(-t.count // lanes), c, machine)
    into = 5 * points**2 + 8 * points * m * len(columns(t.columns, lanes)) * lanes / t.columns
    out = 4 * points**2 + 12 * m**2
    weights = o * -(-c // lanes) * (16 * TAPS**2 + 3 * points**2)
    return conv.images // t.images * products + vectors * (c * into + o * out) + weights


# ------------------------------------------------------------------------ kernels


@dataclass(frozen=True)
class Winograd:
    """Emits a convolution; ``emit`` is the loop nest of a kernel by the rules."""

    conv: Convolution
    tiling: Tiling
    machine: VectorUnits
    views: Views
    inner: NodeDict[None]
    emit: Emit

    def __call__(self, direct: Any) -> Any:
        """Return the statements; ``direct`` follows if a result is not finite."""
        t, (c, o, _, _) = self.tiling, self.conv.sizes
        g, blocks = t.filtering.points**2, self.conv.images // t.images
        u, v, m = (self._buffer(n, s) for n, s in
                   (("u", (g, o, c)), ("v", (g, c, t.count)), ("m", (g, o, t.count))))  # fmt: skip
        sums, total = self._buffer("sums", (o, t.count)), self._buffer("total", (blocks,))
        bad = self._buffer("bad", (1,), "int32")
        like = self.conv.channel.var

        def block(b: Any) -> Any:
            first = b * integer(t.images, b)
            return seq([
                loop("c", c, like, lambda k: loop("n", t.images, like, lambda n: self._input(
                    first, n, k, v))),
                self._product(u, v, m),
                loop("o", o, like, lambda k: self._output(first, k, m, sums)),
                self._total(sums, total, b),
            ])  # fmt: skip

        finite = [tirx.And(tirx.FloatImm(DTYPE, -LARGEST) <= e, e <= tirx.FloatImm(DTYPE, LARGEST))
                  for e in [tirx.BufferLoad(total, [integer(k, like)]) for k in range(blocks)]]  # fmt: skip
        zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
        count: Any = zero
        for each in finite:
            count = count + tirx.Select(each, zero, one)
        place = [integer(0, like)]
        return seq([
            self._weights(u),
            loop("b", blocks, like, block),
            tirx.BufferStore(bad, count, place),
            tirx.IfThenElse(tirx.NE(tirx.BufferLoad(bad, place), zero), direct, None),
        ])  # fmt: skip

    def _buffer(self, name: str, shape: Sequence[int], dtype: str = DTYPE) -> Any:
        like = self.conv.channel.var
        buffer = local(name, [integer(n, like) for n in shape], dtype)
        self.inner[buffer] = None
        return buffer

    def _axis(self, name: str, extent: int) -> Axis:
        like = self.conv.channel.var
        return Axis(tirx.Var(name, dtype_of(like)), integer(extent, like))

    def _number(self, value: int) -> Any:
        return integer(value, self.conv.channel.var)

    def _vectors(self, kernel: Kernel, axis: Axis) -> Any:
        """Emit a kernel with many results: one vector at a time."""
        lanes = columns(axis.static or 1, self.machine.lanes(DTYPE))[0][1]
        return LoopNest(kernel, self.machine, Tile(1, 1, lanes), kernel.axes, None, axis)()

    def _weights(self, u: Any) -> Any:
        """Emit ``u``, from the taps of the weights side by side."""
        conv, (c, o, _, _) = self.conv, self.conv.sizes
        taps = self._buffer("taps", (TAPS * TAPS, o, c))
        k, row, column = (self._axis(*a) for a in (("k", TAPS * TAPS), ("o", o), ("c", c)))
        flat = (row.var * self._number(c) + column.var) * self._number(TAPS * TAPS) + k.var
        load = tirx.BufferLoad(self.views.of(conv.weights.source), [flat])
        output = KernelOutput(taps, (k.var, row.var, column.var), load)
        copy = _kernel((row, column, k), (), [output])
        lanes = columns(c, self.machine.lanes(DTYPE))[0][1]
        copied = Deinterleaved(copy, self.machine, Tile(1, 1, lanes), copy.axes, None, column,
                               copy=StridedCopy(output, load, TAPS * TAPS))()  # fmt: skip
        lets, bind = _bindings("w")
        window = [[bind(tirx.BufferLoad(taps, [self._number(TAPS * i + j), row.var, column.var]))
                   for j in range(TAPS)] for i in range(TAPS)]  # fmt: skip
        matrix = self.tiling.filtering.weights
        at = _both(window, lambda e: product(matrix, e, bind))
        outputs = [KernelOutput(u, (self._number(g), row.var, column.var), e)
                   for g, e in enumerate(at)]  # fmt: skip
        return seq([copied, self._vectors(_kernel((row, column), lets, outputs), column)])

    def _input(self, first: Any, n: Any, channel: Any, v: Any) -> Any:
        """Emit the transform of one channel of an image."""
        t, m = self.tiling, self.tiling.filtering.outputs
        points = t.filtering.points
        size = m * t.rows + TAPS - 1, m * t.columns + TAPS - 1
        padded, tiles = (self._buffer(name, shape) for name, shape in (
            ("padded", size), ("tiles", (points, m, (t.rows + 1) * t.columns))))  # fmt: skip
        f = self._axis("t", t.tiles)
        lets, bind = _bindings("d")
        window = [[bind(tirx.BufferLoad(tiles, [
            self._number(j), self._number(i % m), f.var + self._number(i // m * t.columns)]))
            for j in range(points)] for i in range(points)]  # fmt: skip
        at = _both(window, lambda e: product(t.filtering.data, e, bind))
        where = n * integer(t.tiles, n) + f.var
        outputs = [KernelOutput(v, (self._number(g), channel, where), e) for g, e in enumerate(at)]
        return seq([
            self.emit(self._padded(padded, size, first + n, channel)),
            *(self.emit(k) for k in self._tiles(padded, tiles)),
            self._vectors(_kernel((f,), lets, outputs), f),
        ])  # fmt: skip

    def _padded(self, new: Any, size: tuple[int, int], image: Any, channel: Any) -> Kernel:
        """Return the copy of one channel of a padded image, with zeros up to whole tiles."""
        conv, producer = self.conv, self.conv.producer
        h, w = self._axis("h", size[0]), self._axis("w", size[1])
        rows, cols = h.var + self._number(conv.y.base), w.var + self._number(conv.x.base)
        at = values(*((a.var, e) for a, e in
                      zip(producer.axes, (image, channel, rows, cols), strict=True)))  # fmt: skip
        moved = producer.at(at, (h, w), ())
        value = moved.results[0].value
        shape = [int(n) for n in items(producer.results[0].buffer.ty.shape)[2:]]
        within = [e < self._number(n) for e, n, most, base in (
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
            j, i = self._axis("j", t.filtering.points), self._axis("i", phases)
            h, x = self._axis("h", rows), self._axis("x", t.columns)
            row = h.var + self._number(start)
            load = tirx.BufferLoad(padded, [row * self._number(m) + i.var,
                                            x.var * self._number(m) + j.var])  # fmt: skip
            index = j.var, i.var, row * self._number(t.columns) + x.var
            out.append(_kernel((j, i, h, x), (), [KernelOutput(tiles, index, load)]))
        return out

    def _product(self, u: Any, v: Any, m: Any) -> Any:
        t, (c, o, _, _) = self.tiling, self.conv.sizes
        g, row, f = (self._axis(*a) for a in
                     (("g", t.filtering.points**2), ("o", o), ("t", t.count)))  # fmt: skip
        k = replace(self._axis("c", c), reduced=True)
        acc = tirx.Var("acc", DTYPE)
        term = tirx.BufferLoad(u, [g.var, row.var, k.var]) * tirx.BufferLoad(v, [g.var, k.var,
                                                                                 f.var])  # fmt: skip
        summed = Accumulator(acc, DTYPE, tirx.FloatImm(DTYPE, 0.0), acc + term)
        output = KernelOutput(m, (g.var, row.var, f.var), acc)
        return self.emit(Kernel((g, row, f), (k,), (summed,), (), (), (output,)))

    def _output(self, first: Any, result: Any, m: Any, sums: Any) -> Any:
        """Emit the results of one channel, and what follows the convolution."""
        t, outputs = self.tiling, self.tiling.filtering.outputs
        apart = self._buffer("apart", (outputs**2, t.count))
        joined = self._buffer("joined", (t.images, outputs * t.rows, outputs * t.columns))
        f = self._axis("t", t.count)
        lets, bind = _bindings("y")
        points = t.filtering.points
        at = [[bind(tirx.BufferLoad(m, [self._number(points * p + q), result, f.var]))
               for q in range(points)] for p in range(points)]  # fmt: skip
        tile = _both(at, lambda e: paired(t.filtering.results, e, bind))
        stored = [KernelOutput(apart, (self._number(k), f.var), e) for k, e in enumerate(tile)]
        stored.append(KernelOutput(sums, (result, f.var), sum(tile[1:], start=tile[0])))
        return seq([
            self._vectors(_kernel((f,), lets, stored), f),
            self._interleaved(apart, joined),
            self.emit(self._following(first, result, joined)),
        ])  # fmt: skip

    def _interleaved(self, apart: Any, joined: Any) -> Any:
        """Emit the rows of the results from their columns, which are apart."""
        t, m = self.tiling, self.tiling.filtering.outputs
        like, most = self.conv.channel.var, max(1, self.machine.lanes(DTYPE) // m)

        def row(n: Any, y: Any) -> Any:
            first = n * integer(t.tiles, n) + y * integer(t.columns, y)
            out = []
            for i in range(m):
                for start, width in columns(t.columns, most):
                    parts = [_vector(apart, [self._number(m * i + j)], first + start, width)
                             for j in range(m)]  # fmt: skip
                    order = [j * width + k for k in range(width) for j in range(m)]
                    place = [n, y * integer(m, y) + i,
                             tirx.Ramp(self._number(m * start), self._number(1), m * width)]  # fmt: skip
                    out.append(tirx.BufferStore(joined, tirx.Shuffle(parts, order), place))
            return seq(out)

        return loop("n", t.images, like, lambda n: loop("y", t.rows, like, lambda y: row(n, y)))

    def _following(self, first: Any, result: Any, joined: Any) -> Kernel:
        """Return what follows the convolution, over one channel of the results."""
        conv, (_, _, rows, cols) = self.conv, self.conv.sizes
        n, y, x = (self._axis(*a) for a in
                   (("n", self.tiling.images), ("y", rows), ("x", cols)))  # fmt: skip
        (acc,) = conv.kernel.accumulators
        load = tirx.BufferLoad(joined, [n.var, y.var, x.var])
        at = values(*((a.var, self._number(0)) for a in conv.kernel.axes))
        at[conv.result.var], at[conv.y.axis.var], at[conv.x.axis.var] = result, y.var, x.var
        if conv.image is not None:
            at[conv.image.var] = first + n.var
        at[acc.var] = load
        kernel = replace(conv.kernel, accumulators=(), reduced=(), before=(), copy=False)
        return kernel.at(at, (n, y, x), ())

    def _total(self, sums: Any, total: Any, b: Any) -> Any:
        """Emit the sum of all results of a block: it is finite only if all of them are."""
        k, f = (replace(self._axis(name, int(n)), reduced=True)
                for name, n in zip("ot", items(sums.ty.shape), strict=True))  # fmt: skip
        acc = tirx.Var("acc", DTYPE)
        summed = Accumulator(acc, DTYPE, tirx.FloatImm(DTYPE, 0.0),
                             acc + tirx.BufferLoad(sums, [k.var, f.var]))  # fmt: skip
        return self.emit(Kernel((), (k, f), (summed,), (), (), (KernelOutput(total, (b,), acc),)))


def _kernel(axes: Sequence[Axis], lets: Sequence[Any], outputs: Sequence[KernelOutput]) -> Kernel:
    return Kernel(tuple(axes), (), (), (), tuple(lets), tuple(outputs))


def _bindings(name: str) -> tuple[list[Any], Callable[[Any], Any]]:
    """Return a list of bindings, and what adds an expression to it and returns its variable."""
    lets: list[Any] = []

    def bind(expr: Any) -> Any:
        var = tirx.Var(f"{name}{len(lets)}", DTYPE)
        lets.append((var, expr))
        return var

    return lets, bind


def _both(window: Sequence[Sequence[Any]], transform: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Apply a transform along both axes of a window; return the elements row by row."""
    down = [transform(list(column)) for column in zip(*window, strict=True)]
    rows = zip(*down, strict=True)
    return [e for row in rows for e in transform(list(row))]


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
