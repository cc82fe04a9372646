"""Expressions over vectors of float32: loads, sums of lanes, powers of 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from tvm import tirx

from ..loops.bfloat16_words import BITS, HALF, WIDE, number_of, rounded, word_of

INDEX = "int64"
#: Terms of the series of ``2^x`` around 0: for |x| <= 1/2 the first one left out is below 2^-27.
_TERMS = 8
#: The least exponent of a normal float32; powers below it are 0.
_LEAST = -126


def index(value: int) -> Any:
    """Return an integer literal of the dtype of indices."""
    return tirx.IntImm(INDEX, value)


def real(value: float, lanes: int = 1) -> Any:
    """Return a float32 literal, or a vector of it."""
    return spread(tirx.FloatImm(WIDE, value), lanes)


def spread(value: Any, lanes: int) -> Any:
    """Return a vector of one scalar."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def ramp(start: Any, lanes: int) -> Any:
    """Return ``lanes`` successive integers."""
    return start if lanes == 1 else tirx.Ramp(start, tirx.const(1, str(start.ty.dtype)), lanes)


def vector_type(dtype: str, lanes: int) -> str:
    """Return the type of a vector."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def load(buffer: Any, place: Any, lanes: int = 1) -> Any:
    """Return successive elements of a flat buffer, as they are stored."""
    return tirx.BufferLoad(buffer, [ramp(place, lanes)])


def wide(buffer: Any, place: Any, lanes: int = 1) -> Any:
    """Return successive elements of a flat buffer as float32; words are bfloat16."""
    value, dtype = load(buffer, place, lanes), str(buffer.ty.dtype)
    if dtype == BITS:
        return number_of(value, lanes)
    return value if dtype == WIDE else tirx.Cast(vector_type(WIDE, lanes), value)


def store(buffer: Any, value: Any, place: Any, lanes: int = 1) -> Any:
    """Return the store of a float32 vector in a flat buffer, in its dtype; words are bfloat16."""
    dtype = str(buffer.ty.dtype)
    if dtype == BITS:
        value = word_of(value, lanes)
    elif dtype != WIDE:
        value = tirx.Cast(vector_type(dtype, lanes), value)
    return tirx.BufferStore(buffer, value, [ramp(place, lanes)])


def narrowed(value: Any, dtype: str) -> Any:
    """Return a float32 rounded to a dtype of fewer bits, as float32."""
    if dtype == HALF:
        return rounded(value)
    return value if dtype == WIDE else tirx.Cast(WIDE, tirx.Cast(dtype, value))


class Steps:
    """Statements one after another; their values can be kept in variables.

    TVM puts the value of a variable in the place of each use, unless it reads memory. So each value
    that is used several times goes through memory of its own, which LLVM makes a register.
    """

    def __init__(self) -> None:
        self.statements: list[Any] = []

    def keep(self, value: Any, dtype: str = WIDE, lanes: int = 1) -> Any:
        """Return a variable with a value."""
        memory = tirx.decl_buffer([lanes], dtype, name="kept")
        place = [ramp(index(0), lanes)]
        self.statements += [tirx.AllocBuffer(memory), tirx.BufferStore(memory, value, place)]
        return self.bind(tirx.BufferLoad(memory, place), dtype, lanes)

    def bind(self, value: Any, dtype: str = WIDE, lanes: int = 1) -> Any:
        """Return a variable with a value that reads memory, or is used once."""
        var = tirx.Var("value", vector_type(dtype, lanes))
        self.statements.append(tirx.Bind(var, value))
        return var

    def folded(self, op: Any, vectors: Sequence[Any], lanes: int) -> Any:
        """Return one vector with, for each of ``vectors``, its lanes combined by an operation.

        Two vectors become one by combining neighbours, (a0 a1 ..), (b0 b1 ..) -> (a0 + a1 ..,
        b0 + b1 ..), so n vectors of n lanes take n - 1 such steps.

        Args:
            op: An operation on two expressions, in any order of the lanes.
            vectors: Variables, a power of 2 of them, at most as many as lanes.
            lanes: Their lanes, a power of 2.
        """
        vectors, count = list(vectors), len(vectors)
        while len(vectors) > 1:
            vectors = [self.keep(_neighbours(op, [a, b], 2 * lanes), lanes=lanes)
                       for a, b in zip(vectors[::2], vectors[1::2], strict=True)]  # fmt: skip
        out = vectors[0]
        while lanes > count:
            lanes //= 2
            out = self.keep(_neighbours(op, [out], 2 * lanes), lanes=lanes)
        return out

    def exp2(self, x: Any, lanes: int) -> Any:
        """Return ``2^x`` of a variable without positive elements; 0 where it is below 2^-126."""
        y = tirx.Select(x < real(_LEAST, lanes), real(_LEAST, lanes), x)  # NaN stays
        y = self.keep(y, lanes=lanes)
        n = self.keep(tirx.floor(y + real(0.5, lanes)), lanes=lanes)
        rest = self.keep(y - n, lanes=lanes)
        series = [math.log(2) ** k / math.factorial(k) for k in range(_TERMS)]
        power = reduce(lambda out, c: out * rest + real(c, lanes), series[-2::-1],
                       real(series[-1], lanes))  # fmt: skip
        word = vector_type("int32", lanes)
        shift, bias = (spread(tirx.IntImm("int32", v), lanes) for v in (23, 127))
        exponent = tirx.shift_left(tirx.Cast(word, n) + bias, shift)
        scale = tirx.reinterpret(vector_type(WIDE, lanes), exponent)
        value = tirx.Select(x < real(_LEAST, lanes), real(0.0, lanes), power * scale)
        return self.keep(value, lanes=lanes)


def _neighbours(op: Any, vectors: Sequence[Any], lanes: int) -> Any:
    return op(*(tirx.Shuffle(list(vectors), [index(k) for k in range(start, lanes, 2)])
                for start in range(2)))  # fmt: skip
