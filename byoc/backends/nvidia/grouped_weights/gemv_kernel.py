"""Products of few rows with weights that are quantised by group: the words are read once.

    words_reg[r, v] = words[n + r, 4 c + v]          16 bytes: a vector c of 128 / bits values
    f = reinterpret(words_reg << s & mask | 1.0)     1 + value * 2**(p - 23), p its lowest bit
    part[m, p] += x[m, k] * f
    acc[r, m] += scale[n + r, g] * (sum over p of 2**(23 - p) * part[m, p] - shift[m])
    b[m, n + r] = sum of acc[r, m] over threadIdx.x

A value becomes the highest bits of the mantissa of a float32 between 1 and 2 by a shift and one
logical operation. ``shift[m]`` is what the ones and the zero point add, once for all columns.
Threads of a column share its depth; each has several columns, which share the activations.
A thread whose sums are not finite computes them again, as ``x * (scale * value)``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from .....analysis import Refusal
from .....analysis.blocks.tir import loads, seq, static
from .....analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from ..schedules.gpu_schedule import DONE
from ..schedules.program.gpu_program import NoGpuSchedule, expanded
from ..schedules.program.thread_loops import (
    BLOCK,
    ROW,
    THREAD,
    kernels,
    load,
    local,
    number,
    reduce_threads,
    serial,
    store,
    thread_loop,
    unrolled,
    vectorized,
    when,
)
from .grouped_product import GroupedProduct, grouped_product, has_words, plain_product
from .storage import HALF_LANES, MOST_ROWS

#: The exponent bits of 1.0, the bits of a mantissa, and the lowest bit that a value may have there:
#: a value times 2**(23 - LOWEST) loses as many bits of float32.
ONE, MANTISSA, LOWEST = 0x3F800000, 23, 15
#: The largest finite float32.
LARGEST = tirx.FloatImm("float32", 3.4028234663852886e38)
#: Threads of a warp, and words of a vector.
WARP, VECTOR = 32, 4
#: Warps of a block, where columns are short; warps that share a column, where they are long.
WARPS, SPLITS = 4, 16


@dataclass(frozen=True)
class GemvTile:
    """How threads share a product.

    Attributes:
        columns: Columns of a thread.
        splits: Warps that share a column.
        lines: Groups of such warps in a block.
    """

    columns: int
    splits: int
    lines: int


def tile_of(rows: int, columns: int, vectors: int) -> GemvTile:
    """Return the tile for a product with this number of vectors of words in a column."""
    most = 4 if rows <= 2 else 2
    each = max(r for r in (1, 2, most) if columns % r == 0)
    steps = -(-vectors // (WARP * SPLITS))
    splits = -(-vectors // (WARP * steps))
    lines = max(1, WARPS // splits)
    while columns % (each * lines):
        lines //= 2
    return GemvTile(each, splits, lines)


def gemv_kernel(what: GroupedProduct, tile: GemvTile | None = None) -> tuple[Any, list[Any]]:
    """Return the kernel of a product, and its buffers.

    Raises:
        NoGpuSchedule: It has many rows, or rows that do not start at a multiple of 16 bytes.
    """
    if not 0 < what.rows <= MOST_ROWS:
        raise NoGpuSchedule(f"{what.rows} rows, expected at most {MOST_ROWS}")
    vectors = what.depth * what.bits // (VECTOR * 32)
    return _Gemv(what, tile or tile_of(what.rows, what.columns, vectors))()


def packed_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc over threads that multiplies few rows; ``func`` is not changed."""
    try:
        what = grouped_product(func) if has_words(func) else plain_product(func)
        nest, buffers = gemv_kernel(what)
    except NoGpuSchedule as error:
        return Refusal(f"few rows: {error}")
    return kernels(func, [nest], buffers).with_attr(DONE, True)


class _Gemv:
    def __init__(self, what: GroupedProduct, tile: GemvTile) -> None:
        self.what, self.tile = what, tile
        self.values = VECTOR * 32 // what.bits
        self.vectors = what.depth // self.values
        # Positions of values in a mantissa: those of one shift, the lowest first.
        self.plain = what.scale is None
        room = 0 if self.plain else (MANTISSA - LOWEST) // what.bits
        self.places = [LOWEST + what.bits * k for k in range(room)]
        count = len(self.places)
        name = what.first.updates[0].buffer.name
        dtype = str(what.words.ty.dtype)
        self.lanes = HALF_LANES if self.plain else VECTOR
        self.words = local(f"{what.words.name}_reg", [tile.columns, self.lanes], dtype)
        self.x = local(f"{what.x.name}_reg", [what.rows, self.values], str(what.x.ty.dtype))
        self.acc = local(f"{name}_acc", [tile.columns, what.rows], "float32")
        self.buffers = [self.words, self.x, self.acc]
        if not self.plain:
            self.scale = local(f"{what.scale.name}_reg", [tile.columns], "float32")
            self.part = local(f"{name}_part", [what.rows, count], "float32")
            self.shift = local(f"{name}_shift", [what.rows], "float32")
            self.buffers += [self.scale, self.part, self.shift]
        size = tile.columns * what.rows
        self.sums = [local(f"{name}_{k}", [1], "float32") for k in range(2 * size)]
        self.shared = local(f"{name}_shared", [tile.splits * tile.lines, size], "float32", "shared")
        self.buffers += [self.shared, *self.sums]

    def __call__(self) -> tuple[Any, list[Any]]:
        tile = self.tile
        blocks = self.what.columns // (tile.columns * tile.lines)

        def block(at: Any) -> Any:
            def warp(y: Any) -> Any:
                return self.warp(at * number(tile.lines), y)

            return thread_loop(ROW, tile.lines * tile.splits, warp)

        return thread_loop(BLOCK, blocks, block), self.buffers

    def warp(self, groups: Any, y: Any) -> Any:
        """The statements of a warp of a block whose first group of columns is ``groups``."""
        tile, size = self.tile, self.tile.columns * self.what.rows
        split, line = y, number(0)
        if tile.splits == 1:
            split, line = line, y
        elif tile.lines > 1:
            split, line = (f(y, number(tile.splits)) for f in (tirx.floormod, tirx.floordiv))
        column = (groups + line) * number(tile.columns)
        parts = [thread_loop(THREAD, WARP, lambda x: self.sum(column, split, x))]
        for k in range(size):
            own, total = self.sums[2 * k], self.sums[2 * k + 1]
            parts.append(reduce_threads(THREAD, WARP, [total], [tirx.FloatImm("float32", 0.0)],
                                        [own], lambda a, b: [a[0] + b[0]]))  # fmt: skip
        shared = seq([store(self.shared, load(self.sums[2 * k + 1], number(0)), y, number(k))
                      for k in range(size)])  # fmt: skip
        parts.append(thread_loop(THREAD, WARP, lambda x: when(tirx.EQ(x, number(0)), shared)))

        def end(x: Any) -> Any:
            inside = x < number(size)
            if tile.splits > 1:
                inside = tirx.And(inside, tirx.EQ(split, number(0)))
            return when(inside, self.results(column, line, x))

        parts.append(thread_loop(THREAD, WARP, end))
        return seq(parts)

    # ------------------------------------------------------------------ sums

    def sum(self, column: Any, split: Any, lane: Any) -> Any:
        """The part of a thread of the sums of its columns."""
        tile, rows = self.tile, self.what.rows
        zero = tirx.FloatImm("float32", 0.0)
        out = [unrolled("r", tile.columns, lambda r: unrolled(
            "m", rows, lambda m: store(self.acc, zero, r, m)))]  # fmt: skip
        threads = WARP * tile.splits
        thread = lane if tile.splits == 1 else split * number(WARP) + lane
        steps = -(-self.vectors // threads)

        def step(t: Any) -> Any:
            vector = thread if steps == 1 else t * number(threads) + thread
            whole = self.vectors % threads == 0
            inside = None if whole else vector < number(self.vectors)
            return when(inside, self.vector(column, vector))

        out.append(serial("t", steps, step))
        own = [(self.sums[2 * (r * rows + m)], load(self.acc, number(r), number(m)))
               for r in range(tile.columns) for m in range(rows)]  # fmt: skip
        done = seq([store(to, total, number(0)) for to, total in own])
        if self.plain:
            return seq([*out, done])

        def again(t: Any) -> Any:
            vector = thread if steps == 1 else t * number(threads) + thread
            return when(vector < number(self.vectors), self.without_ones(column, vector))

        # No condition is negated: !(a <= b) would become b < a, which a NaN does not satisfy.
        finite = functools.reduce(tirx.And, (tirx.abs(total) <= LARGEST for _, total in own))
        out.append(tirx.IfThenElse(finite, done, seq([*out[:1], serial("t", steps, again), done])))
        return seq(out)

    def without_ones(self, column: Any, vector: Any) -> Any:
        """The part of one vector, without ones that are added and subtracted again.

        An infinite activation would be infinite in both, and their difference not a number. Memory
        is read again: indices of the loop would move registers to memory.
        """
        what, first = self.what, vector * number(self.values)
        bits, each = number(what.bits), number(32 // what.bits)

        def value(e: Any) -> Any:
            def add(r: Any, m: Any) -> Any:
                word = load(what.words, column + r,
                            vector * number(self.lanes) + tirx.floordiv(e, each))  # fmt: skip
                amount = tirx.Cast("uint32", tirx.floormod(e, each) * bits)
                digit = (word >> amount) & tirx.IntImm("uint32", (1 << what.bits) - 1)
                weight = as_dtype(digit, "float32") - tirx.FloatImm("float32", what.offset)
                group = tirx.floordiv(first, number(what.group))
                weight = as_dtype(load(what.scale, column + r, group), "float32") * weight
                x = as_dtype(load(what.x, *self.row(m), first + e), "float32")
                return store(self.acc, load(self.acc, r, m) + x * weight, r, m)

            return unrolled("r", self.tile.columns, lambda r: unrolled(
                "m", what.rows, lambda m: add(r, m)))  # fmt: skip

        return serial("e", self.values, value)

    def vector(self, column: Any, vector: Any) -> Any:
        """The part of one vector of words of each column."""
        what, tile, rows = self.what, self.tile, self.what.rows
        first = vector * number(self.values)

        def read(r: Any) -> Any:
            def word(v: Any) -> Any:
                return load(what.words, column + r, vector * number(self.lanes) + v)

            words = vectorized("v", self.lanes, lambda v: store(self.words, word(v), r, v))
            if self.plain:
                return words
            whole = what.group == self.values
            group = vector if whole else tirx.floordiv(first, number(what.group))
            return seq([words, store(self.scale, load(what.scale, column + r, group), r)])

        read_all = [
            unrolled("r", tile.columns, read),
            unrolled("m", rows, lambda m: self.activations(m, first)),
        ]
        if self.plain:
            return seq([*read_all, unrolled("r", tile.columns, self.halves)])
        return seq([
            *read_all,
            unrolled("m", rows, self.shifts),
            unrolled("r", tile.columns, self.column),
        ])  # fmt: skip

    def halves(self, r: Any) -> Any:
        """The part of a vector of halves of a column."""

        def add(m: Any) -> Any:
            total = load(self.acc, r, m)
            for e in range(self.values):
                weight = as_dtype(load(self.words, r, number(e)), "float32")
                total = total + self.activation(m, e) * weight
            return store(self.acc, total, r, m)

        return unrolled("m", self.what.rows, add)

    def activations(self, m: Any, first: Any) -> Any:
        x = self.what.x
        each = 16 // int(tvm.DataType(str(x.ty.dtype)).itemsize)
        outer = self.row(m)

        def read(q: Any) -> Any:
            def lane(v: Any) -> Any:
                at = q * number(each) + v
                return store(self.x, load(x, *outer, first + at), m, at)

            return vectorized("v", each, lane)

        return unrolled("q", self.values // each, read)

    def row(self, m: Any) -> list[Any]:
        """The outer indices of a row of the activations."""
        return digits(m, [static(e) or 0 for e in items(self.what.x.ty.shape)[:-1]])

    def shifts(self, m: Any) -> Any:
        """What the ones of the mantissas and the zero point add to the sums of a row."""
        offset, terms = self.what.offset, []
        for k, place in enumerate(self.places):
            total = None
            for e in range(k, self.values, len(self.places)):
                value = self.activation(m, e)
                total = value if total is None else total + value
            factor = float(2 ** (MANTISSA - place)) + offset
            terms.append(total * tirx.FloatImm("float32", factor))
        return store(self.shift, _sum(terms), m)

    def activation(self, m: Any, e: int) -> Any:
        return as_dtype(load(self.x, m, number(e)), "float32")

    def column(self, r: Any) -> Any:
        rows, count = self.what.rows, len(self.places)
        zero = tirx.FloatImm("float32", 0.0)
        out = [unrolled("m", rows, lambda m: seq(
            [store(self.part, zero, m, number(k)) for k in range(count)]))]  # fmt: skip
        for e in range(self.values):
            k = e % count
            value = tirx.Var("f", "float32")
            out.append(tirx.Bind(value, self.value(r, e)))

            def add(m: Any, e: int = e, k: int = k, value: Any = value) -> Any:
                more = load(self.part, m, number(k)) + self.activation(m, e) * value
                return store(self.part, more, m, number(k))

            out.append(unrolled("m", rows, add))

        def scaled(m: Any) -> Any:
            parts = [load(self.part, m, number(k)) * tirx.FloatImm("float32", 2.0 ** (MANTISSA - p))
                     for k, p in enumerate(self.places)]  # fmt: skip
            total = _sum(parts) - load(self.shift, m)
            return store(self.acc, load(self.acc, r, m) + load(self.scale, r) * total, r, m)

        return seq([*out, unrolled("m", rows, scaled)])

    def value(self, r: Any, e: int) -> Any:
        """``1 + value * 2**(place - 23)`` of the value ``e`` of a vector."""
        bits, count = self.what.bits, len(self.places)
        word, inside = divmod(e * bits, 32)
        place = self.places[e % count]
        left = place - inside
        raw = load(self.words, r, number(word))
        if left:
            amount = tirx.IntImm("uint32", abs(left))
            raw = raw << amount if left > 0 else raw >> amount
        mask = tirx.IntImm("uint32", ((1 << bits) - 1) << place)
        return tirx.reinterpret("float32", (raw & mask) | tirx.IntImm("uint32", ONE))

    # ------------------------------------------------------------------ results

    def results(self, column: Any, line: Any, lane: Any) -> Any:
        """The result of a lane, which adds up what the warps of its column have."""
        tile, rows = self.tile, self.what.rows
        total = _sum([load(self.shared, line * number(tile.splits) + number(k), lane)
                      for k in range(tile.splits)])  # fmt: skip
        r, m = (lane, number(0)) if rows == 1 else (
            tirx.floordiv(lane, number(rows)), tirx.floormod(lane, number(rows)))  # fmt: skip
        return self.result(m, column + r, total)

    def result(self, m: Any, n: Any, total: Any) -> Any:
        what = self.what
        (first,) = what.first.updates
        total = as_dtype(total, str(first.buffer.ty.dtype))
        if what.last is None:
            return store(first.buffer, total, *self.place(first.buffer, m, n))
        (update,) = what.last.updates
        where = NodeDict[Any]()
        extents = [static(a.extent) or 0 for a in what.last.axes]
        if not extents or extents[-1] != what.columns:
            raise NoGpuSchedule("what follows the product has other columns")
        for axis, value in zip(what.last.axes, [*digits(m, extents[:-1]), n], strict=True):
            where[axis.var] = as_dtype(value, str(axis.var.ty.dtype))
        lets, value = expanded(update.value, what.program.definitions)
        where_all, out = where, []
        for var, part in lets:
            new = tirx.Var(var.name, str(var.ty.dtype))
            out.append(tirx.Bind(new, self.with_product(part, where_all, m, n, total)))
            where_all[var] = new
        value = self.with_product(value, where_all, m, n, total)
        indices = [_simple(substitute(i, where)) for i in update.indices]
        return seq([*out, store(update.buffer, value, *indices)])

    def place(self, buffer: Any, m: Any, n: Any) -> list[Any]:
        """The indices of an element of the product."""
        extents = [static(e) or 0 for e in items(buffer.ty.shape)]
        if not extents or extents[-1] != self.what.columns:
            raise NoGpuSchedule("the columns of the product are not its last axis")
        return [*digits(m, extents[:-1]), n]

    def with_product(self, expr: Any, where: Any, m: Any, n: Any, total: Any) -> Any:
        """An expression with the total in place of the element of the product."""
        (first,) = self.what.first.updates
        expr = substitute(expr, where)
        expected = self.place(first.buffer, m, n)
        known = NodeDict[Any]()
        for access in loads(expr):
            if not access.source.same_as(first.buffer):
                continue
            pairs = zip(items(access.indices), expected, strict=True)
            if not all(_equal(a, b) for a, b in pairs):
                raise NoGpuSchedule("what follows the product reads other elements of it")
            known[access] = total
        return _replaced(expr, known)


def digits(index: Any, extents: list[int]) -> list[Any]:
    """The coordinates of a flat index, which is a literal or a variable, over some extents."""
    out: list[Any] = []
    after = 1
    for extent in reversed(extents):
        value = number(0) if extent == 1 else index
        if extent != 1 and after != 1:
            value = tirx.floordiv(value, number(after))
        left = extents[: len(extents) - len(out) - 1]
        if extent != 1 and any(e != 1 for e in left):
            value = tirx.floormod(value, number(extent))
        out.append(_simple(value))
        after *= extent
    return out[::-1]


def _simple(expr: Any) -> Any:
    return tvm.sym.Analyzer().simplify(expr)


def _equal(a: Any, b: Any) -> bool:
    return bool(tvm.sym.Analyzer().can_prove_equal(a, as_dtype(b, str(a.ty.dtype))))


def _sum(terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _replaced(expr: Any, known: NodeDict[Any]) -> Any:
    import tvm_ffi

    from .....analysis.support.tvm_compat import TensorLoad

    def load_(node: Any, mutator: Any) -> Any:
        value = known.get(node)
        return mutator.default_mutate(node) if value is None else value

    return tvm_ffi.structural_mutate(expr, (TensorLoad, load_))
