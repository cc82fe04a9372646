"""Powers of integers, which wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def integer_powers(builder: Any, base: Any, exponent: Any, shape: Sequence[Any]) -> Any:
    """Return the powers of tensors that are broadcast to a shape, in the dtype of the base."""
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return relax.op.zeros(shape, base.ty.dtype)  # Relax's reshape copies a size for 0
    flat = [
        builder.emit(relax.op.reshape(builder.emit(relax.op.broadcast_to(x, shape)), [-1]))
        for x in (base, exponent)
    ]
    return relax.op.reshape(builder.emit_te(_of_integers, *flat), shape)


def _of_integers(base: Any, exponent: Any) -> Any:
    """Square and multiply, element by element, tensors of shape (n,)."""
    dtype = str(base.dtype)

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.serial(0, base.shape[0]) as k:
                _element([*inputs, *outputs], k)
            return builder.get()

    return te.extern([base.shape], [base, exponent], body, dtype=[dtype], name="integer_power")


def _element(buffers: Sequence[Any], k: Any) -> None:
    """Emit the power of one element; a negative one of 1 and -1 is 1 or -1, of others 0."""
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
