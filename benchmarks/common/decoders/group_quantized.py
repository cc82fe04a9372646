"""Weights of four bits in groups, as MLC-LLM stores them: eight in a word, a scale for each 32."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx

GROUP, WORD, LARGEST = 32, 8, 7
Array = np.ndarray[Any, Any]


def quantized(weight: Array) -> tuple[Array, Array]:
    """Return words of uint32 and scales, each along the last axis."""
    groups = weight.reshape(*weight.shape[:-1], -1, GROUP)
    scale = np.abs(groups).max(-1, keepdims=True) / LARGEST
    levels = np.clip(np.round(groups / scale + LARGEST), 0, 2 * LARGEST).astype("uint32")
    digits = levels.reshape(*weight.shape[:-1], -1, WORD) << (4 * np.arange(WORD, dtype="uint32"))
    return digits.sum(-1, dtype="uint32"), scale[..., 0].astype("float32")


def dequantized(words: Array, scale: Array) -> Array:
    """Return the weights that words and scales stand for."""
    digits = (words[..., None] >> (4 * np.arange(WORD, dtype="uint32"))) & 15
    levels = digits.reshape(*words.shape[:-1], -1).astype("float32") - LARGEST
    return np.asarray(levels * np.repeat(scale, GROUP, -1))


def dequantize(words: Any, scale: Any) -> Any:
    """Return the weights as a tensor expression."""
    *outer, last = words.shape

    def weight(*index: Any) -> Any:
        *place, k = index
        word = words[(*place, k // WORD)]
        digit = tirx.bitwise_and(
            word >> tirx.Cast("uint32", k % WORD * 4), tirx.const(15, "uint32")
        )
        return (tirx.Cast("float32", digit) - LARGEST) * scale[(*place, k // GROUP)]

    return te.compute((*outer, last * WORD), weight, name="dequantize")
