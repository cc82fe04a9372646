"""A small graph that a library takes whole, and its constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax, tirx

N, M, K = (tirx.Var(c, "int64") for c in "nmk")
SIZES = {"n": 3, "m": 24, "k": 40}
Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
NUMPY = {"float32": np.dtype("float32"), "float16": np.dtype("float16"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16)}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``build(emit, const, *inputs)``; ``ops``: the region's, without ``relax.`` and ``nn.``."""

    backend: str
    shapes: tuple[tuple[Any, ...], ...]
    build: Build
    ops: str
    dtype: str = "float32"


def constant(rng: np.random.Generator, dtype: str, numbers: str) -> Callable[..., Any]:
    """Constants that are numbers of ``numbers``, in a tensor of ``dtype``; small halves."""

    def made(*shape: int, positive: bool = False) -> Any:
        a = rng.uniform(0.5, 1.5, shape) if positive else rng.standard_normal(shape) / 4
        return relax.const(a.astype(NUMPY[numbers]).astype(NUMPY[dtype]), dtype)

    return made
