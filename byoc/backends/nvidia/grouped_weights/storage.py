"""Which packed weights the kernel of few rows reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Dtypes of words, and of activations and scales.
WORDS, FLOATS = ("uint32",), ("float16", "bfloat16", "float32")
#: Bits of a value that words hold without a rest; bits of a word and of a vector of words.
BITS, WORD, VECTOR = (2, 4, 8), 32, 128
#: The largest number of rows; from there on, the weights are dequantised for a library.
MOST_ROWS = 8
#: The largest number of rows for weights of halves, with which libraries multiply more.
PLAIN_ROWS = 1
HALVES = ("float16", "bfloat16")
#: Halves of a vector of 16 bytes.
HALF_LANES = 8


def axes_of(attrs: Mapping[str, Any]) -> set[int]:
    """Return the axes of a matrix along which its groups and words are."""
    packed = attrs.get("packed_axis")
    return {int(a) % 2 for a in (attrs["axis"], attrs["axis"] if packed is None else packed)}


def refused(
    attrs: Mapping[str, Any], words: Sequence[Any], depth: Any, dtypes: Sequence[str]
) -> str | None:
    """Return why the kernel does not read a matrix of packed weights; None if it does.

    Args:
        attrs: The attributes of the dequantisation by group.
        words: The shape of the words.
        depth: The number of values that a product sums.
        dtypes: The dtypes of words, scales and activations.
    """
    bits, group = int(attrs["bits"]), int(attrs["group_size"])
    if dtypes[0] not in WORDS or bits not in BITS:
        return f"{bits} bits in {dtypes[0]}"
    if not set(dtypes[1:]) <= set(FLOATS):
        return f"the scales are {dtypes[1]}, the activations {dtypes[2]}"
    if int(attrs.get("interleave") or 1) != 1 or attrs.get("size") is not None:
        return "values are interleaved, or the last words are not full"
    if not isinstance(words[-1], int) or not isinstance(depth, int):
        return "the depth is symbolic"
    values = VECTOR // bits
    if depth * bits != words[-1] * WORD or depth % values:
        return f"{depth} values of a column do not fill vectors of {values}"
    if group % values:
        return f"groups of {group} values are no multiple of {values}"
    return None
