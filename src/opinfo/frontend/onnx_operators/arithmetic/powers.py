"""Powers of integers, or of mixed dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ...onnx_graph.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.tvm_converters import broadcast, convert


@converts("Pow")
def power(node: OnnxNode) -> Any:
    """Return powers in the dtype of the base; those of integers wrap around."""
    base, exponent = node.dtype(0), node.dtype(1)
    if "float" in base and base == exponent:
        return convert(node)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    if "float" in base:
        return relax.op.power(data, node.emit(relax.op.astype(by, base)))
    if "float" in exponent:
        data, by = (node.emit(relax.op.astype(x, "float64")) for x in (data, by))
        return relax.op.astype(node.emit(relax.op.power(data, by)), base)
    shaped = node.builder.normalize(relax.op.add(data, node.emit(relax.op.astype(by, base))))
    shape = dims_of(shaped)
    if exponent != "uint64":
        by = node.emit(relax.op.astype(by, "int64"))
    flat = [
        node.emit(relax.op.reshape(node.emit(relax.op.broadcast_to(x, shape)), [-1]))
        for x in (data, by)
    ]
    return relax.op.reshape(node.builder.emit_te(_of_integers, *flat), shape)


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
