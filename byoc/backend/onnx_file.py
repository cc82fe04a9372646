"""A whole model as an ONNX file for a runtime, and how a backend takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..patterns.pattern import Condition
from .region import Array

if TYPE_CHECKING:
    from .backend import Code


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX file with static shapes that a function of a library runs.

    Attributes:
        symbol: The exported function.
        content: The file, of dtype uint8.
        inputs: The names of its inputs.
        results: The names of its outputs.
        dtypes: TVM's names of the dtypes of the inputs, then of the results.
    """

    symbol: str
    content: Array
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class OnnxReader:
    """How a backend runs the file that a model was loaded from.

    Attributes:
        convert: Turns a file into code with its one function.
        dtypes: The dtypes of inputs and results that it takes.
        conditions: What every operator of the imported model must satisfy. Where the runtime
            departs from ONNX for some values only, calls with random inputs would not show it.
    """

    convert: Callable[[OnnxModel], Code]
    dtypes: frozenset[str]
    conditions: tuple[Condition, ...] = ()
