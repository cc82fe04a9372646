"""Powers of integers, which wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .pairwise_loops import pairwise


def integer_powers(builder: Any, base: Any, exponent: Any, shape: Sequence[Any]) -> Any:
    """Return the powers of tensors that are broadcast to a shape, in the dtype of the base."""
    return pairwise(builder, base, exponent, shape, _element, "integer_power")


def _element(buffers: Sequence[Any], k: Any) -> None:
    """Emit the power of one element, by squares; a negative one of 1 and -1 is 1 or -1, else 0."""
    bases, exponents, results = (T.buffer_proxy(x) for x in buffers)
    base, exponent, _ = buffers
    dtype, one = base.dtype, tirx.const(1, base.dtype)
    square = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
    rest = T.buffer_proxy(T.alloc_buffer((1,), exponent.dtype, scope="local"))
    square[0] = bases[k]
    rest[0] = exponents[k]
    results[k] = one
    if not str(exponent.dtype).startswith("u"):
        with T.If(exponents[k] < 0):
            with T.Then():
                unit = bases[k] == one
                if not str(dtype).startswith("u"):
                    unit = tirx.any(unit, bases[k] == tirx.const(-1, dtype))
                # The power of a unit is that of the exponent's parity.
                square[0] = tirx.Select(unit, bases[k], tirx.const(0, dtype))
                rest[0] = tirx.const(2, exponent.dtype) - exponents[k] % 2
    with T.While(rest[0] > 0):
        with T.If((rest[0] % 2) == 1):
            with T.Then():
                results[k] = results[k] * square[0]
        square[0] = square[0] * square[0]
        rest[0] = rest[0] // 2
