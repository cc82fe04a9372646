"""What a thread adds for one vector of packed values of each of its columns.

    words_reg[r, v] = words[n + r, 4 c + v]          16 bytes; or words[c, n + r], a word a column
    f = reinterpret(words_reg << s & mask | 1.0)     1 + value * 2**(p - 23), p its lowest bit
    part[m, p] += x[m, k] * f
    acc[r, m] += scale[n + r, g] * (sum over p of 2**(23 - p) * part[m, p] - shift[m]
                                    - zero_points[n + r, g] * total[m])

A value of a word of 32 bits becomes the highest bits of the mantissa of a float32 between 1 and 2
by a shift and one logical operation. ``shift[m]`` is what the ones and the zero point of all groups
add, once for all columns. Values of a byte are converted, which takes one instruction too.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from .....analysis.blocks.tir import seq, static
from .....analysis.lifting.tir.node import as_dtype, items
from ..schedules.program.thread_loops import (
    load,
    local,
    number,
    serial,
    store,
    unrolled,
    vectorized,
    when,
)
from .grouped_product import GroupedProduct
from .product_results import digits

#: The exponent bits of 1.0, the bits of a mantissa, and the lowest bit that a value may have there:
#: a value times 2**(23 - LOWEST) loses as many bits of float32.
ONE, MANTISSA, LOWEST = 0x3F800000, 23, 15
#: Bytes of a vector.
BYTES = 16


class PackedVector:
    """The registers of a thread, and the statements over them.

    Args:
        what: The product.
        columns: The columns of a thread.

    Attributes:
        values: The values of a vector in a column.
        vectors: The vectors of a column; the last one may not be full.
        acc: The sums, of shape (columns, rows).
        buffers: All registers.
    """

    def __init__(self, what: GroupedProduct, columns: int) -> None:
        self.what, self.columns = what, columns
        self.bytes = what.width == 8
        self.lanes = BYTES * 8 // what.width if what.along else 1
        self.per_word = what.width // what.bits
        self.values = self.lanes * self.per_word
        self.vectors = -(-what.depth // self.values)
        room = 1 if self.bytes else (MANTISSA - LOWEST) // what.bits
        # Positions of values in a mantissa: those of one shift, the lowest first.
        self.places = [MANTISSA if self.bytes else LOWEST + what.bits * k for k in range(room)]
        dtypes = [str(t.ty.dtype) for t in (what.words, what.scale, what.x)]
        self.words = local(f"{what.words.name}_reg", [columns, self.lanes], dtypes[0])
        self.scale = local(f"{what.scale.name}_reg", [columns], dtypes[1])
        self.x = local(f"{what.x.name}_reg", [what.rows, self.values], dtypes[2])
        name = what.result.name
        self.acc = local(f"{name}_acc", [columns, what.rows], "float32")
        self.part = local(f"{name}_part", [what.rows, room], "float32")
        self.shift = local(f"{name}_shift", [what.rows], "float32")
        self.buffers = [self.words, self.scale, self.x, self.acc, self.part, self.shift]
        if what.zeros is not None:
            self.zero = local(f"{what.zeros.name}_reg", [columns], "float32")
            self.total = local(f"{name}_total", [what.rows], "float32")
            self.buffers += [self.zero, self.total]

    def clear(self) -> Any:
        """Set the sums to zero."""
        zero = tirx.FloatImm("float32", 0.0)
        return unrolled("r", self.columns, lambda r: unrolled(
            "m", self.what.rows, lambda m: store(self.acc, zero, r, m)))  # fmt: skip

    def add(self, column: Any, vector: Any) -> Any:
        """Add one vector of each column."""
        first = vector * number(self.values)
        return seq([
            *self.read(column, vector),
            unrolled("m", self.what.rows, lambda m: self.activations(m, first)),
            unrolled("m", self.what.rows, self.shifts),
            unrolled("r", self.columns, self.column),
        ])  # fmt: skip

    def without_ones(self, column: Any, vector: Any) -> Any:
        """Add one vector of each column as ``x * (scale * value)``, without ones.

        An infinite activation would be infinite in the ones too, and their difference not a number.
        Memory is read again: indices of the loop would move registers to memory.
        """
        what, first = self.what, vector * number(self.values)
        bits, each = number(what.bits), number(self.per_word)

        def add(e: Any, r: Any, m: Any) -> Any:
            word = load(what.words, *self.word(column + r, vector, tirx.floordiv(e, each)))
            weight = self.digit(word, tirx.floormod(e, each) * bits)
            weight = as_dtype(weight, "float32") - tirx.FloatImm("float32", what.offset)
            group = tirx.floordiv(first, number(what.group))
            if what.zeros is not None:
                weight = weight - self.zero_point(column + r, group)
            scale = load(what.scale, *self.matrix(column + r, group))
            x = as_dtype(load(what.x, *self.row(m), first + e), "float32")
            more = x * (as_dtype(scale, "float32") * weight)
            return store(self.acc, load(self.acc, r, m) + more, r, m)

        def value(e: Any) -> Any:
            return when(self.inside(first + e), unrolled("r", self.columns, lambda r: unrolled(
                "m", what.rows, lambda m: add(e, r, m))))  # fmt: skip

        return serial("e", self.values, value)

    # ------------------------------------------------------------------ memory

    def matrix(self, column: Any, place: Any) -> list[Any]:
        """The indices of an element of a matrix with an axis for columns."""
        inner = [column, place] if self.what.along else [place, column]
        experts = self.what.experts
        if experts is None:
            return inner
        shape = [static(e) or 0 for e in items(experts.ids.ty.shape)]
        return [as_dtype(load(experts.ids, *digits(experts.row, shape)), "int64"), *inner]

    def word(self, column: Any, vector: Any, lane: Any) -> list[Any]:
        """The indices of a word of a vector."""
        return self.matrix(column, vector * number(self.lanes) + lane if self.lanes > 1 else vector)

    def inside(self, place: Any) -> Any:
        """Whether a sum has so many values; None if all vectors are full."""
        return place < number(self.what.depth) if self.what.depth % self.values else None

    def read(self, column: Any, vector: Any) -> list[Any]:
        """Load the words, scales and zero points of each column."""
        what, each = self.what, self.what.group // self.values
        group = vector if each == 1 else tirx.floordiv(vector, number(each))

        def words(r: Any) -> Any:
            return vectorized("v", self.lanes, lambda v: store(
                self.words, load(what.words, *self.word(column + r, vector, v)), r, v))  # fmt: skip

        def scales(r: Any) -> Any:
            return store(self.scale, load(what.scale, *self.matrix(column + r, group)), r)

        def zeros(r: Any) -> Any:
            return store(self.zero, self.zero_point(column + r, group), r)

        if what.along:
            out = [unrolled("r", self.columns, lambda r: seq([words(r), scales(r)]))]
        else:
            zero = number(0)
            out = [
                vectorized("r", self.columns, lambda r: store(
                    self.words, load(what.words, *self.word(column + r, vector, zero)), r, zero)),
                vectorized("r", self.columns, scales),
            ]  # fmt: skip
        return out if what.zeros is None else [*out, unrolled("r", self.columns, zeros)]

    def zero_point(self, column: Any, group: Any) -> Any:
        """The zero point of a group, as float32."""
        what = self.what
        indices = self.matrix(column, group)
        if what.zeros_axis is None:
            return as_dtype(load(what.zeros, *indices), "float32")
        each = number(self.per_word)
        axis = what.zeros_axis - 2  # of the matrix, whose axes are the last ones
        place = indices[axis]
        indices[axis] = tirx.floordiv(place, each)
        amount = tirx.floormod(place, each) * number(what.bits)
        return as_dtype(self.digit(load(what.zeros, *indices), amount), "float32")

    def digit(self, word: Any, amount: Any) -> Any:
        """The value of some bits of a word."""
        bits, dtype = self.what.bits, str(word.ty.dtype)
        if bits == tvm.DataType(dtype).bits:
            return word
        word = as_dtype(word, "uint32" if not self.bytes else "int32")
        mask = tirx.IntImm(str(word.ty.dtype), (1 << bits) - 1)
        return (word >> as_dtype(amount, str(word.ty.dtype))) & mask

    def activations(self, row: Any, first: Any) -> Any:
        """Load the activations of a row; those behind the last one are zeros."""
        x = self.what.x
        each = lanes_of(x, self.values)
        outer = self.row(row)
        zero = tirx.const(0.0, str(x.ty.dtype))

        def read(q: Any) -> Any:
            start = q * number(each)
            loaded = vectorized("v", each, lambda v: store(
                self.x, load(x, *outer, first + (start + v)), row, start + v))  # fmt: skip
            inside = self.inside(first + start)
            if inside is None:
                return loaded
            empty = vectorized("v", each, lambda v: store(self.x, zero, row, start + v))
            return tirx.IfThenElse(inside, loaded, empty)

        return unrolled("q", self.values // each, read)

    def row(self, m: Any) -> list[Any]:
        """The outer indices of a row of the activations."""
        row = m if self.what.experts is None else self.what.experts.row
        return digits(row, [static(e) or 0 for e in items(self.what.x.ty.shape)[:-1]])

    # ------------------------------------------------------------------ sums

    def activation(self, row: Any, element: int) -> Any:
        return as_dtype(load(self.x, row, number(element)), "float32")

    def shifts(self, row: Any) -> Any:
        """What the ones of the mantissas and the zero point add to the sums of a row."""
        offset, terms = self.what.offset, []
        totals = [sum_of([self.activation(row, e) for e in range(k, self.values, len(self.places))])
                  for k in range(len(self.places))]  # fmt: skip
        for place, total in zip(self.places, totals, strict=True):
            factor = (0.0 if self.bytes else float(2 ** (MANTISSA - place))) + offset
            terms.append(total * tirx.FloatImm("float32", factor))
        out = [store(self.shift, sum_of(terms), row)]
        if self.what.zeros is not None:
            out.append(store(self.total, sum_of(totals), row))
        return seq(out)

    def column(self, column: Any) -> Any:
        """Add the vector of a column."""
        rows, count = self.what.rows, len(self.places)
        zero = tirx.FloatImm("float32", 0.0)
        out = [unrolled("m", rows, lambda m: seq(
            [store(self.part, zero, m, number(k)) for k in range(count)]))]  # fmt: skip
        for e in range(self.values):
            k = e % count
            value = tirx.Var("f", "float32")
            out.append(tirx.Bind(value, self.value(column, e)))

            def add(m: Any, e: int = e, k: int = k, value: Any = value) -> Any:
                more = load(self.part, m, number(k)) + self.activation(m, e) * value
                return store(self.part, more, m, number(k))

            out.append(unrolled("m", rows, add))

        def scaled(m: Any) -> Any:
            parts = [load(self.part, m, number(k)) * tirx.FloatImm("float32", 2.0 ** (MANTISSA - p))
                     for k, p in enumerate(self.places)]  # fmt: skip
            total = sum_of(parts) - load(self.shift, m)
            if self.what.zeros is not None:
                total = total - load(self.zero, column) * load(self.total, m)
            scale = as_dtype(load(self.scale, column), "float32")
            return store(self.acc, load(self.acc, column, m) + scale * total, column, m)

        return seq([*out, unrolled("m", rows, scaled)])

    def value(self, column: Any, element: int) -> Any:
        """The value of an element of a vector; of words, ``1 + value * 2**(place - 23)``."""
        bits, count = self.what.bits, len(self.places)
        word, inside = divmod(element, self.per_word)
        raw = load(self.words, column, number(word))
        if self.bytes:
            return as_dtype(self.digit(raw, number(inside * bits)), "float32")
        raw, place = as_dtype(raw, "uint32"), self.places[element % count]
        left = place - inside * bits
        if left:
            amount = tirx.IntImm("uint32", abs(left))
            raw = raw << amount if left > 0 else raw >> amount
        mask = tirx.IntImm("uint32", ((1 << bits) - 1) << place)
        return tirx.reinterpret("float32", (raw & mask) | tirx.IntImm("uint32", ONE))


def lanes_of(x: Any, values: int) -> int:
    """The activations that are loaded together."""
    each = BYTES // int(tvm.DataType(str(x.ty.dtype)).itemsize)
    while values % each:
        each //= 2
    return each


def sum_of(terms: list[Any]) -> Any:
    """The sum of some terms."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
