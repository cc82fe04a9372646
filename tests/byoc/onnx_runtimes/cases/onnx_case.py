"""A case of an operator that ONNX has, and why OpenVINO refuses some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

op = relax.op
N, M = (tvm.tirx.Var(name, "int64") for name in "nm")
#: What symbols are in tests.
SIZES = {"n": 3, "m": 4}
IMAGE = (2, 4, 7, 6)
LAST = (2, 7, 6, 4)
Build = Callable[..., Any]
WIDE = "the dtype is int64, which OpenVINO rounds beyond 2^24"
ROUNDED = "the dtype is int32, which OpenVINO rounds beyond 2^24"
HALF = "the dtype is float16, which OpenVINO computes as float32"
REMAINDER = "OpenVINO computes remainders of floats from rounded quotients"
INFINITIES = "OpenVINO has the largest finite number as the minimum of infinities"
QUOTIENT = "the dtype is int32, of which OpenVINO rounds quotients down"
SUMS = "the dtype is int32, of which OpenVINO rounds sums of products to float32"
LACKED = "lacked"
TURNED = "the layout is NHWC; OpenVINO misreads tensors between transposes"


@dataclass(frozen=True)
class OnnxCase:
    """``build(emit, rng, *inputs)``; an input is a shape, and a dtype if it is not float32.

    Integers are drawn from 0 to ``below``. ``refused`` says why OpenVINO does not take it.
    """

    build: Build
    inputs: tuple[Any, ...]
    below: int = 4
    refused: str = ""

    def parameters(self, name: str) -> list[Any]:
        return [relax.Var(f"{name}_{j}", relax.TensorType(shape, dtype))
                for j, (shape, dtype) in enumerate(map(_typed, self.inputs))]  # fmt: skip

    def drawn(self, rng: Any) -> list[Any]:
        return [_value(rng, shape, dtype, self.below) for shape, dtype in map(_typed, self.inputs)]


def _typed(given: Any) -> tuple[Any, str]:
    return given if len(given) == 2 and isinstance(given[1], str) else (given, "float32")


def _value(rng: Any, shape: Any, dtype: str, below: int) -> Any:
    extents = [e if isinstance(e, int) else SIZES[e.name] for e in shape]
    if dtype.startswith("float"):
        return rng.standard_normal(extents).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else below, extents).astype(dtype)


def call(f: Callable[..., Any], *args: Any, **attrs: Any) -> Build:
    return lambda e, r, *xs: e(f(*xs, *args, **attrs))


def from_bytes(f: Callable[..., Any], dtype: str) -> Build:
    """A function of integers that are known to be small, as they were bytes."""
    return lambda e, r, *xs: e(f(*(
        e(op.astype(x, dtype)) if str(x.ty.dtype) == "int8" else x for x in xs)))  # fmt: skip
