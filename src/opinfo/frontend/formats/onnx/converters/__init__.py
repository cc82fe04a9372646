"""Converters from ONNX operators to Relax, one module a family."""

from __future__ import annotations

from . import (
    contributed,
    control,
    convolution,
    elementwise,
    indexing,
    pooling,
    quantized,
    recurrent,
    resize,
    sequences,
    shapes,
    slicing,
)
from .registry import CONVERTERS

__all__ = [
    "CONVERTERS", "contributed", "control", "convolution", "elementwise", "indexing", "pooling",
    "quantized", "recurrent", "resize", "sequences", "shapes", "slicing",
]  # fmt: skip
