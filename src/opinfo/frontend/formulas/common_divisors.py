"""Greatest common divisors of integers by Euclid's algorithm, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def common_divisors(builder: Any, left: Any, right: Any, shape: Sequence[Any]) -> Any:
    """Return the divisors of tensors of one dtype that are broadcast to a shape; of 0 and 0, 0.

    A divisor is positive, but for the least integer of a dtype, whose size the dtype has not.
    """
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return relax.op.zeros(shape, left.ty.dtype)  # Relax's reshape copies a size for 0
    flat = [
        builder.emit(relax.op.reshape(builder.emit(relax.op.broadcast_to(x, shape)), [-1]))
        for x in (left, right)
    ]
    return builder.emit(relax.op.reshape(builder.emit_te(_of_vectors, *flat), shape))


def _of_vectors(left: Any, right: Any) -> Any:
    """Divide until nothing remains, element by element, tensors of shape (n,)."""
    dtype = str(left.dtype)

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.serial(0, left.shape[0]) as k:
                _element([*inputs, *outputs], k)
            return builder.get()

    return te.extern([left.shape], [left, right], body, dtype=[dtype], name="common_divisor")


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
