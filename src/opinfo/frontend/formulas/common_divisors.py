"""Greatest common divisors of integers by Euclid's algorithm, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .pairwise_loops import pairwise


def common_divisors(builder: Any, left: Any, right: Any, shape: Sequence[Any]) -> Any:
    """Return the divisors of tensors of one dtype that are broadcast to a shape; of 0 and 0, 0.

    A divisor is positive, but for the least integer of a dtype, whose size the dtype has not.
    """
    return builder.emit(pairwise(builder, left, right, shape, _element, "common_divisor"))


def _element(buffers: Sequence[Any], k: Any) -> None:
    """Emit ``while a: a, b = b % a, a`` of negative numbers, which all integers have.

    The least integer has no size of its dtype, and ends the process modulo -1.
    """
    lefts, rights, results = (T.buffer_proxy(x) for x in buffers)
    dtype = str(buffers[0].dtype)
    zero, signed = tirx.const(0, dtype), not dtype.startswith("u")
    divisor = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
    rest = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
    divisor[0] = _negative(lefts[k]) if signed else lefts[k]
    results[k] = _negative(rights[k]) if signed else rights[k]
    with T.While(divisor[0] != zero):
        by = divisor[0]
        if signed:
            by = tirx.Select(by == tirx.const(-1, dtype), tirx.const(1, dtype), by)
        rest[0] = tirx.truncmod(results[k], by)
        results[k] = divisor[0]
        divisor[0] = rest[0]
    if signed:
        is_least = results[k] == tirx.min_value(dtype)
        results[k] = tirx.Select(is_least, results[k], zero - results[k])


def _negative(number: Any) -> Any:
    """Return the number of the same size that is not positive."""
    zero = tirx.const(0, str(number.ty))
    return tirx.Select(number > zero, zero - number, number)
