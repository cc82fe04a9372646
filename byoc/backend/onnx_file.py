"""A whole model as an ONNX file for a runtime."""

from __future__ import annotations

from dataclasses import dataclass

from .region import Array


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX file with static shapes that a function of a library runs.

    Attributes:
        symbol: The exported function.
        content: The file, of dtype uint8.
        inputs: The names of its inputs.
        results: The names of its outputs.
        dtypes: TVM's names of the dtypes of the inputs, then of the results.
        clamped: The positions of inputs of int64 that the runtime gets clamped to 2^24.
    """

    symbol: str
    content: Array
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    dtypes: tuple[str, ...]
    clamped: frozenset[int] = frozenset()
