"""Numbers of bfloat16 as words of 16 bits, the upper ones of a float32, in vectors of any lanes.

TVM's pass for bfloat16 takes no views of buffers, and drops casts whose result stays in a kernel.
Expressions here repeat their operand: a call is bound to a variable first.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

WIDE = "float32"
#: The dtype of the numbers, and that of their words.
HALF, BITS = "bfloat16", "uint16"
_WORD = "uint32"
_LOWER = 16


def rounded(number: Any, lanes: int = 1) -> Any:
    """Return a float32 rounded to bfloat16, to even, as float32; NaN stays NaN."""
    return tirx.reinterpret(_type(WIDE, lanes), rounded_bits(number, lanes))


def rounded_bits(number: Any, lanes: int = 1) -> Any:
    """Return the bits of a float32 rounded to bfloat16, to even; the lower 16 are 0.

    NaN becomes a quiet one: its payload may be in the lower bits only, and without these it would
    be an infinity. An addition would carry out of others.
    """
    bits = tirx.reinterpret(_type(_WORD, lanes), number)
    is_odd = tirx.bitwise_and(tirx.shift_right(bits, _word(_LOWER, lanes)), _word(1, lanes))
    even = bits + _word(0x7FFF, lanes) + is_odd
    is_nan = tirx.bitwise_and(bits, _word(0x7FFFFFFF, lanes)) > _word(0x7F800000, lanes)
    quiet = tirx.bitwise_or(bits, _word(0x400000, lanes))
    return tirx.bitwise_and(tirx.Select(is_nan, quiet, even), _word(0xFFFF0000, lanes))


def word_of(number: Any, lanes: int = 1) -> Any:
    """Return the word of a float32 that is rounded to bfloat16, uint16."""
    upper = tirx.shift_right(rounded_bits(number, lanes), _word(_LOWER, lanes))
    return tirx.Cast(_type(BITS, lanes), upper)


def number_of(word: Any, lanes: int = 1) -> Any:
    """Return the float32 of a word, uint16."""
    bits = tirx.shift_left(tirx.Cast(_type(_WORD, lanes), word), _word(_LOWER, lanes))
    return tirx.reinterpret(_type(WIDE, lanes), bits)


def _type(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _word(value: int, lanes: int) -> Any:
    literal = tirx.const(value, _WORD)
    return literal if lanes == 1 else tirx.Broadcast(literal, lanes)
