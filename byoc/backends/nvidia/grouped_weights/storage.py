"""Which packed weights the kernels of few rows read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.runtime import DataType

#: Dtypes of words, and of activations and scales.
WORDS, FLOATS = ("uint32", "int32", "uint8", "int8"), ("float16", "bfloat16", "float32")
#: Bits of a value of a word of 32 bits, and of a byte; bits of a vector of words.
BITS, BYTE_BITS, VECTOR = (2, 3, 4, 8), (4, 8), 128
#: The largest number of rows; from there on, the weights are dequantised for a library.
MOST_ROWS = 8
#: The largest number of rows for weights of halves, with which libraries multiply more.
PLAIN_ROWS = 1
HALVES = ("float16", "bfloat16")
#: Halves of a vector of 16 bytes.
HALF_LANES = 8
#: Columns of a block, where neighbours in memory are words of columns.
ACROSS = 32


def axes_of(attrs: Mapping[str, Any]) -> set[int]:
    """Return the axes of a matrix along which its groups and words are."""
    packed = attrs.get("packed_axis")
    return {int(a) % 2 for a in (attrs["axis"], attrs["axis"] if packed is None else packed)}


def refused(
    attrs: Mapping[str, Any], words: Sequence[Any], depth: Any, dtypes: Sequence[str]
) -> str | None:
    """Return why no kernel reads a matrix of packed weights; None if one does.

    Args:
        attrs: The attributes of the dequantisation by group, along one axis.
        words: The shape of the words.
        depth: The number of values that a product sums.
        dtypes: The dtypes of words, scales and activations.
    """
    bits, group = int(attrs["bits"]), int(attrs["group_size"])
    if dtypes[0] not in WORDS:
        return f"words of {dtypes[0]}"
    width, (along,) = DataType(dtypes[0]).bits, axes_of(attrs)
    if bits not in (BYTE_BITS if width == 8 else BITS):
        return f"{bits} bits in {dtypes[0]}"
    if not set(dtypes[1:]) <= set(FLOATS):
        return f"the scales are {dtypes[1]}, the activations {dtypes[2]}"
    if int(attrs.get("interleave") or 1) != 1:
        return "values are interleaved"
    if not all(isinstance(e, int) for e in (*words, depth)):
        return "the depth is symbolic"
    if not along and (width == 8 or words[1] % ACROSS):
        return f"{words[1]} columns of {dtypes[0]} beside each other do not fill lines"
    per_word, lanes = width // bits, VECTOR // width if along else 1
    values, held = per_word * lanes, words[along] * per_word
    if words[along] % lanes or depth > held:
        return f"{depth} values of a column do not fill vectors of {values}"
    each = VECTOR // DataType(dtypes[2]).bits
    while values % each:
        each //= 2
    if depth % each:
        return f"{depth} activations do not divide into vectors of {each}"
    if group % values:
        return f"groups of {group} values are not a multiple of {values}"
    return None
